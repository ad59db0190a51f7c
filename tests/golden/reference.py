#!/usr/bin/env python3
"""What a smeltc spec means, in numpy and double precision: one sequence in, the logits of every position out.

Independent of the compiler, its interpreter and PyTorch. Run as a program it checks the golden files.
usage: reference.py [CASE...]        needs numpy and safetensors
"""

import json
import pathlib
import sys
import tomllib

import numpy as np
from safetensors.numpy import load_file

TOLERANCE = 1e-5  # relative L2 against logits made in f32


def rms_norm(x, weight, eps):
    return x * weight / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def silu(x):
    return x / (1.0 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rope(x, theta):
    """x [tokens, heads, head_dim]; pairs (i, i + head_dim/2) turn by position * theta^(-2i/head_dim)."""
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[0])[:, None] * theta ** (-np.arange(half) / half)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    low, high = x[..., :half], x[..., half:]
    return np.concatenate([low * cos - high * sin, high * cos + low * sin], -1)


def qk_norm(x, kind, weight, heads, eps):
    """x [tokens, heads * head_dim]."""
    if kind == "none":
        return x
    if kind == "full_width":
        return rms_norm(x, weight, eps)
    return rms_norm(x.reshape(len(x), heads, -1), weight, eps).reshape(x.shape)


def attention(x, w, prefix, spec, eps):
    """Causal grouped-query attention over the whole sequence; keys and values are those of this visit."""
    tokens, dim = len(x), spec["head_dim"]
    heads = {"q": spec["query_heads"], "k": spec["kv_heads"], "v": spec["kv_heads"]}
    projected = {}
    for part, count in heads.items():
        y = x @ w[f"{prefix}.{part}_proj.weight"].T
        if spec["qkv_bias"]:
            y = y + w[f"{prefix}.{part}_proj.bias"]
        if part != "v":
            y = qk_norm(y, spec["qk_norm"], w.get(f"{prefix}.{part}_norm.weight"), count, eps)
        y = y.reshape(tokens, count, dim)
        projected[part] = y if part == "v" else rope(y, spec["rope_theta"])
    group = heads["q"] // heads["k"]
    k, v = (np.repeat(projected[part], group, axis=1) for part in "kv")
    scores = np.einsum("qhd,khd->hqk", projected["q"], k) / np.sqrt(dim)
    scores = np.where(np.tri(tokens, dtype=bool), scores, -np.inf)
    mixed = np.einsum("hqk,khd->qhd", softmax(scores), v).reshape(tokens, -1)
    return mixed @ w[f"{prefix}.o_proj.weight"].T


def swiglu(x, w, prefix):
    hidden = silu(x @ w[f"{prefix}.gate_proj.weight"].T) * (x @ w[f"{prefix}.up_proj.weight"].T)
    return hidden @ w[f"{prefix}.down_proj.weight"].T


def route(logits, spec):
    """Chosen experts [tokens, k], best first and ties to the lower index, and their weights."""
    chosen = np.argsort(-logits, axis=-1, kind="stable")[:, : spec["top_k"]]
    scores = softmax(logits) if spec["router"] == "softmax" else 1.0 / (1.0 + np.exp(-logits))
    weights = np.take_along_axis(scores, chosen, -1)
    return chosen, weights / weights.sum(-1, keepdims=True) if spec["renormalize"] else weights


def moe(x, w, prefix, spec):
    chosen, weights = route(x @ w[f"{prefix}.gate.weight"].T, spec)
    out = np.zeros_like(x)
    for token, (experts, shares) in enumerate(zip(chosen, weights)):
        for expert, share in zip(experts, shares):
            out[token] += share * swiglu(x[token], w, f"{prefix}.experts.{expert}")
    if spec.get("shared_experts"):
        out += swiglu(x, w, f"{prefix}.shared_experts")
    return out


def schedule(segment):
    """Layers of a segment, relative to its first, in execution order."""
    layers, visits = segment["layers"], segment.get("visits", 1)
    if segment.get("order", "block") == "block":
        return [layer for _ in range(visits) for layer in range(layers)]
    return [layer for layer in range(layers) for _ in range(visits)]


def logits(spec, weights, tokens):
    """Logits [tokens, vocab] of a parsed spec, Hugging Face named weights and token ids."""
    model, eps = spec["model"], spec["model"]["norm_eps"]
    w = {name: values.astype(np.float64) for name, values in weights.items()}
    x = w["model.embed_tokens.weight"][tokens]
    first = 0
    for segment in spec["segment"]:
        scale = segment.get("residual_scale", 1.0 / segment.get("visits", 1))
        heads = {**spec["attention"], **segment.get("attention", {})}
        for layer in schedule(segment):
            prefix = f"model.layers.{first + layer}"
            normed = rms_norm(x, w[f"{prefix}.input_layernorm.weight"], eps)
            x = x + scale * attention(normed, w, f"{prefix}.self_attn", heads, eps)
            normed = rms_norm(x, w[f"{prefix}.post_attention_layernorm.weight"], eps)
            dense = segment.get("ffn", "moe") == "dense"
            mlp = swiglu(normed, w, f"{prefix}.mlp") if dense else moe(normed, w, f"{prefix}.mlp", spec["moe"])
            x = x + scale * mlp
        first += segment["layers"]
    head = w["model.embed_tokens.weight" if model["tie_embeddings"] else "lm_head.weight"]
    return rms_norm(x, w["model.norm.weight"], eps) @ head.T


def check(stem):
    spec = tomllib.loads(stem.with_suffix(".toml").read_text())
    tokens = json.loads(stem.with_suffix(".tokens.json").read_text())
    golden = np.load(stem.with_suffix(".logits.npy"))
    ours = logits(spec, load_file(stem.with_suffix(".safetensors")), tokens)
    error = np.linalg.norm(ours - golden) / np.linalg.norm(golden)
    print(f"{stem.name}: relative L2 {error:.1e}")
    return golden.shape == ours.shape and error <= TOLERANCE


def main():
    here = pathlib.Path(__file__).parent
    names = sys.argv[1:] or sorted(path.stem for path in here.glob("*.toml"))
    if not all([check(here / name) for name in names]):
        sys.exit("some golden logits differ from the reference")


if __name__ == "__main__":
    main()
