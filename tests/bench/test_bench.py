"""What the benchmark's numbers rest on: the choice of samples, the counts of work, the limits they are held against."""
import json
import pathlib
import tempfile
import unittest

import costs
import run
import sampling
import shapes
import table
from sampling import Sample, summarize


def samples(*triples):
    return [Sample(*triple) for triple in triples]


class CostsTest(unittest.TestCase):
    def test_specs_of_other_depths_keep_everything_but_their_layers(self):
        path = shapes.SPECS["smelt-100m-s85"]
        text, original = (shapes.ROOT / path).read_text(), shapes.read_shape(path)
        for layers, visits in ((12, 1), (120, 8)):
            with tempfile.TemporaryDirectory() as folder:
                spec = pathlib.Path(folder, "spec.toml")
                spec.write_text(costs.respec(text, layers, visits))
                shape = shapes.read_shape(spec)
            self.assertEqual(shape.layers, layers)
            self.assertEqual(len(shape.executed), layers // 2 + layers // 2 * visits)
            self.assertEqual((shape.hidden, shape.experts, shape.kv_heads), (original.hidden, original.experts, original.kv_heads))


class SummaryTest(unittest.TestCase):
    def test_median_and_spread(self):
        one = "one L3"
        summary = summarize({"a": samples((3, one, one), (1, one, one), (2, one, one))})["a"]
        self.assertEqual((summary.seconds, summary.kept, summary.dropped), (2, 3, 0))
        self.assertAlmostEqual(summary.spread, (2 - 2) / 2 if round(0.75 * 2) == round(0.25 * 2) else (3 - 1) / 2)

    def test_samples_that_moved_are_dropped(self):
        summary = summarize({"a": samples((1, "one L3", "two L3s"), (2, "one L3", "one L3"))})["a"]
        self.assertEqual((summary.seconds, summary.kept, summary.dropped), (2, 1, 1))

    def test_engines_are_compared_in_a_placement_that_both_met(self):
        ours = samples((1, "one L3", "one L3"), (1, "one L3", "one L3"), (9, "two L3s", "two L3s"))
        theirs = samples((5, "two L3s", "two L3s"), (5, "two L3s", "two L3s"))
        summary = summarize({"ours": ours, "theirs": theirs})
        self.assertEqual({s.placement for s in summary.values()}, {"two L3s"})
        self.assertEqual(summary["ours"].seconds, 9)

    def test_no_common_placement_is_no_row(self):
        ours, theirs = samples((1, "one L3", "one L3")), samples((1, "two L3s", "two L3s"))
        self.assertIsNone(summarize({"ours": ours, "theirs": theirs}))
        self.assertIsNone(summarize({"ours": [], "theirs": theirs}))

    def test_relative_l2(self):
        self.assertAlmostEqual(sampling.relative_l2([3.0, 4.0], [3.0, 4.5]), 0.1)
        with self.assertRaises(ValueError):
            sampling.relative_l2([1.0], [1.0, 2.0])


class ShapeTest(unittest.TestCase):
    def test_loops_are_executed_in_order(self):
        shape = shapes.read_shape("specs/smelt/smelt-100m-s85.toml")
        order = [layer.index for layer in shape.executed]
        self.assertEqual(order, [0, 1, 2, 3, 4, 5, 6, 2, 3, 4, 5, 6, 7, 8, 9])
        self.assertEqual([layer.scale for layer in shape.executed], [1] * 2 + [0.5] * 10 + [1] * 3)
        self.assertEqual(shape.layers, 10)

    def test_layer_order(self):
        shape = shapes.read_shape("specs/tests/tiny-looped-layer-order.toml")
        order = [layer.index for layer in shape.executed]
        self.assertEqual(order, sorted(order))
        self.assertGreater(len(order), shape.layers)

    def test_what_peers_lack_is_refused(self):
        for spec in ("tiny-dense", "tiny-shared-sigmoid", "tiny-mixed-dense-moe"):
            with self.assertRaises(shapes.Unsupported, msg=spec):
                shapes.read_shape(f"specs/tests/{spec}.toml")

    def test_every_spec_is_readable_and_has_its_baseline(self):
        for spec in shapes.SPECS.values():
            self.assertGreater(shapes.read_shape(spec).weight_bytes("bf16"), 0)
        self.assertLessEqual(set(shapes.BASELINES.values()), set(shapes.SPECS))

    def test_weight_bytes(self):
        shape = shapes.read_shape("specs/smelt/smelt-100m-s85.toml")
        # 10 layers of 96 experts of 3 * 576 * 424, attention 576 * (2 * 576 + 2 * 144), router 96 * 576; two tables of
        # 32768 * 576. Norms are left out.
        elements = 10 * (96 * 3 * 576 * 424 + 576 * (2 * 576 + 2 * 144) + 96 * 576) + 2 * 32768 * 576
        self.assertEqual(shape.weight_bytes("f32"), 4 * elements)
        self.assertEqual(shape.weight_bytes("bf16"), 2 * elements)
        self.assertGreater(shape.weight_bytes("bf16", unrolled=True), 1.4 * shape.weight_bytes("bf16"))


class WorkTest(unittest.TestCase):
    def setUp(self):
        self.shape = shapes.read_shape("tests/bench/specs/bench-tiny.toml")
        self.attention = 256 * (2 * 256 + 2 * 64)
        self.expert = 3 * 256 * 128

    def test_one_decoded_token(self):
        work = shapes.work(self.shape, "bf16", kv_bytes=1000, sequences=1, first=16, tokens=1, steps=1, distinct=4 * 4, passes=1)
        layer = self.attention + 256 * 16 + 4 * self.expert
        self.assertEqual(work.flops, 2 * (4 * layer + 256 * 4096) + 4 * 4 * 256 * 17)
        weights = 2 * (4 * (layer + 2 * 256) + 256 * 4096 + 256)
        self.assertEqual(work.bytes, weights + 1000 * (17 + 1))

    def test_sequences_that_share_experts_read_them_once(self):
        alone = shapes.work(self.shape, "f32", 0, sequences=4, first=0, tokens=1, steps=1, distinct=4 * 16, passes=1)
        shared = shapes.work(self.shape, "f32", 0, sequences=4, first=0, tokens=1, steps=1, distinct=4 * 4, passes=1)
        self.assertEqual(alone.bytes - shared.bytes, 4 * 4 * 12 * self.expert)
        self.assertEqual(alone.flops, shared.flops)

    def test_a_prompt_attends_to_half_its_square(self):
        work = lambda tokens: shapes.work(self.shape, "f32", 0, 1, 0, tokens, 1, 0, 1).flops
        linear = 2 * 4 * (self.attention + 256 * 16 + 4 * self.expert)
        head = 2 * 256 * 4096
        self.assertEqual(work(8) - head, 8 * linear + 4 * 4 * 256 * 36)


class TableTest(unittest.TestCase):
    limits = [{"threads": 2, "fma_gflops": 100, "bf16_gflops": 200, "int16_gops": 400, "read_gbytes": 10, "l3_read_gbytes": 100}]

    def entry(self, **fields):
        return {"limits": self.limits, "dtype": "bf16", "isa": "x86-64-v4+bf16", "fits_l3": False, **fields}

    def test_the_roof_is_the_slower_of_compute_and_memory(self):
        row = {"flops": 200e9, "bytes": 1e9}
        self.assertEqual(table.roof(self.entry(), row), (1.0, "dot"))
        self.assertEqual(table.roof(self.entry(isa="x86-64-v4"), row), (2.0, "FMA"))
        self.assertEqual(table.roof(self.entry(dtype="f32"), row), (2.0, "FMA"))
        self.assertEqual(table.roof(self.entry(dtype="i8"), row), (2.0, "FMA"))
        self.assertEqual(table.roof(self.entry(dtype="i8", isa="x86-64-v4+vnni"), row), (0.5, "VNNI"))
        self.assertEqual(table.roof(self.entry(), {"flops": 1e9, "bytes": 10e9}), (1.0, "read"))
        self.assertEqual(table.roof(self.entry(fits_l3=True), {"flops": 1e9, "bytes": 10e9}), (0.1, "L3"))

    def test_looped_models_are_set_against_their_baselines(self):
        entry = lambda model, seconds: {
            "model": model, "dtype": "f32",
            "rows": [{"phase": "decode x1", "tokens": 2, "placement": "one L3", "engines": {"smeltc": {"seconds": seconds}}}],
        }
        lines = list(table.looped_ratios([entry("smelt-100m-s85", 3), entry("baseline-100m-s85", 2), entry("tiny", 1)]))
        self.assertEqual(len(lines), 1)
        self.assertIn("1.50", lines[0])


class ResultsTest(unittest.TestCase):
    def test_results_are_appended(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "results.json"
            run.append_results(path, {"model": "a"})
            run.append_results(path, {"model": "b"})
            self.assertEqual(json.loads(path.read_text()), [{"model": "a"}, {"model": "b"}])
            self.assertEqual([p.name for p in path.parent.iterdir()], ["results.json"])


if __name__ == "__main__":
    unittest.main()
