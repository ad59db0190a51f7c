#!/usr/bin/env python3
"""Makes the golden files of this folder: for each case a spec, weights, tokens and the logits of PyTorch.

usage: make_golden.py [CASE...]      (README.md lists the packages)
"""

import json
import pathlib
import sys

import numpy as np
import torch
from safetensors.torch import save_file

from cases import CASES, Case
from looped import Segment, looped_logits
from models import checkpoint, parameters

HERE = pathlib.Path(__file__).parent
MINIMUM_ROUTER_GAP = 1e-3  # between the last chosen and the first other score, for every token and layer
MINIMUM_GRADIENT = 1e-4  # relative to the largest, for every tensor


class RouterWatch:
    """Records the router logits of every MoE layer executed."""

    def __init__(self, segments: list[Segment]):
        self.calls: list[tuple[torch.Tensor, int]] = []
        self.handles = []
        for model in {id(s.model): s.model for s in segments}.values():
            for module in model.modules():
                if type(module).__name__.lower().endswith("topkrouter"):
                    self.handles.append(module.register_forward_hook(self.record))

    def record(self, module, inputs, output) -> None:
        x = inputs[0].reshape(-1, inputs[0].shape[-1])
        self.calls.append((torch.nn.functional.linear(x, module.weight).detach(), module.top_k))

    def smallest_gap(self) -> float:
        gaps = [float("inf")]
        for logits, k in self.calls:
            if k < logits.shape[-1]:
                ordered = logits.sort(dim=-1, descending=True).values
                gaps.append(float((ordered[:, k - 1] - ordered[:, k]).min()))
        return min(gaps)

    def close(self) -> None:
        for handle in self.handles:
            handle.remove()


def assert_equals_transformers(segments: list[Segment], tokens: torch.Tensor) -> None:
    """With one visit and scale 1 the loop must be the model as transformers runs it."""
    for model in {id(s.model): s.model for s in segments}.values():
        once = [Segment(model, 0, len(model.model.layers))]
        ours = looped_logits(once, tokens)
        theirs = model(input_ids=tokens[None], use_cache=False).logits[0]
        difference = (ours - theirs).norm() / theirs.norm()
        assert difference < 1e-6, f"the plain loop differs from {type(model).__name__} by {difference}"


def weights_of(segments: list[Segment]) -> dict[str, torch.Tensor]:
    """Live parameters under their names in the looped model: layers renumbered in execution order."""
    outer = segments[0].model
    named = {k: v for k, v in parameters(outer).items() if ".layers." not in k}
    layer = 0
    for segment in segments:
        source = parameters(segment.model)
        for index in range(segment.first, segment.first + segment.layers):
            prefix = f"model.layers.{index}."
            for name, tensor in source.items():
                if name.startswith(prefix):
                    named[f"model.layers.{layer}." + name[len(prefix) :]] = tensor
            layer += 1
    return named


def weakest_weight(named: dict[str, torch.Tensor], logits: torch.Tensor) -> tuple[float, str]:
    """The smallest relative gradient of a fixed random projection of the logits over all tensors."""
    probe = torch.randn(logits.shape, generator=torch.Generator().manual_seed(7))
    gradients = torch.autograd.grad((logits * probe).sum(), list(named.values()))
    split = checkpoint(dict(zip(named, gradients)))
    norms = {name: float(g.norm()) for name, g in split.items()}
    name = min(norms, key=norms.get)
    return norms[name] / max(norms.values()), name


def attempt(case: Case, seed: int):
    """Weights, tokens and logits for one seed, or the reason why the seed is not good enough."""
    segments = case.segments(seed)
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, case.spec["model"]["vocab_size"], (case.tokens,), generator=generator)
    assert_equals_transformers(segments, tokens)

    watch = RouterWatch(segments)
    logits = looped_logits(segments, tokens)
    watch.close()
    if watch.smallest_gap() < MINIMUM_ROUTER_GAP:
        return f"router gap {watch.smallest_gap():.1e}", None
    named = weights_of(segments)
    strength, name = weakest_weight(named, logits)
    if strength < MINIMUM_GRADIENT:
        return f"{name} has relative gradient {strength:.1e}", None
    summary = f"router gap {watch.smallest_gap():.1e}, weakest gradient {strength:.1e}"
    return summary, (checkpoint(named), tokens, logits)


def toml_value(value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def toml(spec: dict) -> str:
    """The spec as text; nested tables of a segment become inline tables."""
    lines = []
    for section, content in spec.items():
        for table in content if isinstance(content, list) else [content]:
            lines.append(f"[[{section}]]" if isinstance(content, list) else f"[{section}]")
            for key, value in table.items():
                if isinstance(value, dict):
                    inner = ", ".join(f"{k} = {toml_value(v)}" for k, v in value.items())
                    lines.append(f"{key} = {{ {inner} }}")
                else:
                    lines.append(f"{key} = {toml_value(value)}")
            lines.append("")
    return "\n".join(lines)


def write(case: Case, weights, tokens, logits) -> None:
    stem = HERE / case.name
    text = f"# {case.about}\n{toml(case.spec)}"
    stem.with_suffix(".toml").write_text(text.rstrip("\n") + "\n")
    save_file({k: v.detach() for k, v in weights.items()}, stem.with_suffix(".safetensors"))
    stem.with_suffix(".tokens.json").write_text(json.dumps(tokens.tolist()) + "\n")
    np.save(stem.with_suffix(".logits.npy"), logits.detach().numpy().astype(np.float32))


def make(case: Case) -> None:
    for seed in range(case.seed, case.seed + 200):
        verdict, result = attempt(case, seed)
        if result:
            write(case, *result)
            print(f"{case.name}: seed {seed}, {verdict}")
            return
    sys.exit(f"{case.name}: no seed is good enough, the last: {verdict}")


def main() -> None:
    torch.set_num_threads(1)
    wanted = set(sys.argv[1:])
    unknown = wanted - {case.name for case in CASES}
    if unknown:
        sys.exit(f"unknown case {', '.join(sorted(unknown))}; there are {', '.join(c.name for c in CASES)}")
    for case in CASES:
        if not wanted or case.name in wanted:
            make(case)


if __name__ == "__main__":
    main()
