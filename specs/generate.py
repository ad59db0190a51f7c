#!/usr/bin/env python3
"""Writes specs/smelt/*.toml, one spec per cell of tests/data/smelt_grid.csv.

Run it from anywhere after changing the grid; the files it writes are committed.
"""

import csv
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent

HEAD = """\
# {title}, label S = {sparsity_label}.
# Published: {active_params_b} B active and {total_params_b} B total parameters without embeddings{ratios}.
# Head counts, head_dim and expert width are derived from those numbers. Not published, so ordinary choices
# here: vocabulary, norm_eps, RoPE base, router and untied head.

[model]
name = "{name}"
vocab_size = 32768
hidden_size = {hidden_size}
norm_eps = 1e-6
tie_embeddings = false

[attention]
query_heads = {query_heads}
kv_heads = {kv_heads}
head_dim = {head_dim}
rope_theta = 10000.0
qk_norm = "none"
qkv_bias = false

[moe]
experts = {experts}
top_k = {top_k}
expert_hidden_size = {expert_hidden_size}
router = "softmax"
renormalize = true
"""

PLAIN = """
[[segment]]
layers = {layers}
"""

LOOPED = """
[[segment]] # prelude
layers = {prelude_layers}

[[segment]] # the loop; every sublayer writes 1/visits of its output
layers = {looped_layers}
visits = {visits}
order = "block"
kv_cache = "per_visit"

[[segment]] # coda
layers = {coda_layers}
"""


def spec(row):
    looped = row["arch"] == "smelt"
    row["name"] = f"{row['arch']}-{row['scale'].lower()}-s{row['sparsity_label']}"
    row["title"] = f"{'SMELT' if looped else 'Baseline of the SMELT'} {row['scale']} cell"
    row["ratios"] = (
        f";\n# {row['flops_ratio']} times the training FLOPs and {row['kv_ratio']} times the KV cache of"
        f" baseline-{row['scale'].lower()}-s{row['sparsity_label']}"
        if looped
        else ""
    )
    return row["name"], (HEAD + (LOOPED if looped else PLAIN)).format(**row)


def main():
    folder = ROOT / "specs" / "smelt"
    folder.mkdir(exist_ok=True)
    with open(ROOT / "tests" / "data" / "smelt_grid.csv", newline="") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            name, text = spec(row)
            (folder / f"{name}.toml").write_text(text)


if __name__ == "__main__":
    main()
