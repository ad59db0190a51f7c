#!/usr/bin/env python3
"""Times the strongest transformers/torch ways to run the same looped models on the same GPU, with the same hash weights.

    peer_bench.py --specs model.toml ... --results results.json      adds "peers" to run.sh's results
    peer_bench.py --specs model.toml --logits OUT.npy --tokens 1,2,3 --device cpu    prints nothing: for comparing

The model is a plain torch module with the structure of the spec: one set of weights for each layer, run once for each
visit, with a static cache of its own for each executed layer. Its experts are run in the ways transformers offers:
batched_mm (gathers expert weights for each token; torch.compile fuses the gather into a GEMV when coordinate descent
tuning is on, which makes it the strongest at small batches) and grouped_mm (sorts tokens by expert). Every combination
with and without a CUDA graph around the whole step is tried, and the fastest one is what the table shows.
"""
import argparse
import json
import math
import sys
import tomllib

import torch
import torch.nn.functional as F

MASK64 = (1 << 64) - 1


def splat_key(seed, name):
    """See runtime/src/Splat.h."""
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & MASK64
    h = (h + seed * 0x9E3779B97F4A7C15) & MASK64
    h = ((h ^ h >> 30) * 0xBF58476D1CE4E5B9) & MASK64
    h = ((h ^ h >> 27) * 0x94D049BB133111EB) & MASK64
    return h ^ h >> 31


def splat_scale(name, columns):
    """Mean, and the f32 factor of the triangular integer."""
    if "norm" in name:
        return 1.0, 0.0
    if name.endswith(".bias"):
        deviation = 0.1
    elif "embed_tokens" in name:
        deviation = 1.0
    else:
        factor = 0.1 if "o_proj" in name else 0.5 if "down_proj" in name else 1.0
        deviation = factor / math.sqrt(columns)
    return 0.0, deviation / math.sqrt(4294967295.0 / 6)


def splat_fill(out, seed, name):
    """Fills a bf16 tensor in place, in pieces: the hash works on 64-bit integers that hold 32-bit values."""
    mean, scale = splat_scale(name, out.shape[-1])
    key = splat_key(seed, name)
    low, high, mask = key & 0xFFFFFFFF, key >> 32, 0xFFFFFFFF
    scale = torch.tensor(scale, dtype=torch.float32, device=out.device)
    flat, piece = out.view(-1), 1 << 24
    for begin in range(0, flat.numel(), piece):
        x = torch.arange(begin, min(begin + piece, flat.numel()), dtype=torch.int64, device=out.device) & mask
        x = (x * 0x9E3779B1 + low) & mask
        x = ((x ^ (x >> 16)) * 0x7FEB352D) & mask
        x = ((x ^ (x >> 15)) + high) & mask
        x = (x * 0x846CA68B) & mask
        x = x ^ (x >> 16)
        n = (x & 0xFFFF) + (x >> 16) - 65535
        flat[begin:begin + x.numel()] = (n.to(torch.float32) * scale + mean).to(out.dtype)


class Attention:
    """A segment's [attention]: that of the spec with the segment's own keys."""

    def __init__(self, table):
        self.heads, self.kv_heads, self.head = table["query_heads"], table["kv_heads"], table["head_dim"]
        self.theta = table.get("rope_theta", 10000.0)
        self.qk_norm, self.bias = table.get("qk_norm", "none"), table.get("qkv_bias", False)
        self.widths = [self.heads * self.head, self.kv_heads * self.head, self.kv_heads * self.head]
        unknown = set(table) - {"query_heads", "kv_heads", "head_dim", "rope_theta", "qk_norm", "qkv_bias"}
        if unknown or self.qk_norm not in ("none", "per_head", "full_width"):
            raise ValueError(f"this baseline knows no attention with {', '.join(sorted(unknown)) or self.qk_norm}")


class Config:
    """What the spec says, with its defaults."""

    def __init__(self, path):
        with open(path, "rb") as file:
            spec = tomllib.load(file)
        model, moe = spec["model"], spec.get("moe")
        self.name, self.vocab, self.hidden = model["name"], model["vocab_size"], model["hidden_size"]
        self.eps, self.tied = model.get("norm_eps", 1e-6), model.get("tie_embeddings", False)
        self.mlp = spec.get("mlp", {}).get("hidden_size", 0)
        if moe:
            self.experts, self.top_k, self.expert_hidden = moe["experts"], moe["top_k"], moe["expert_hidden_size"]
            self.sigmoid, self.renormalize = moe.get("router", "softmax") == "sigmoid", moe.get("renormalize", True)
            self.shared = moe.get("shared_experts", 0) * moe.get("shared_expert_hidden_size", 0)
        self.layers = []  # (attention, whether it has routed experts)
        self.schedule = []  # executed layers in order: (layer, scale)
        for segment in spec["segment"]:
            count, visits = segment["layers"], segment.get("visits", 1)
            scale = segment.get("residual_scale", 1.0 / visits)
            if segment.get("kv_cache", "per_visit") != "per_visit":
                raise ValueError(f"{path}: this baseline knows no kv_cache = \"{segment['kv_cache']}\"")
            own = range(len(self.layers), len(self.layers) + count)
            block = segment.get("order", "block") == "block"
            self.schedule += [(layer, scale) for layer in own for _ in range(visits)] if not block else \
                [(layer, scale) for _ in range(visits) for layer in own]
            attention = Attention({**spec["attention"], **segment.get("attention", {})})
            self.layers += [(attention, segment.get("ffn", "moe" if moe else "dense") == "moe")] * count


class Layer(torch.nn.Module):
    def __init__(self, config, index, device, seed):
        super().__init__()
        self.config, (self.attention, self.sparse) = config, config.layers[index]
        prefix = f"model.layers.{index}."

        def filled(name, *shape):
            tensor = torch.empty(*shape, dtype=torch.bfloat16, device=device)
            splat_fill(tensor, seed, prefix + name)
            return tensor

        def weight(name, *shape):
            return torch.nn.Parameter(filled(name, *shape), requires_grad=False)

        def joined(names, *shapes):
            parts = [filled(name, *shape) for name, shape in zip(names, shapes)]
            return torch.nn.Parameter(torch.cat(parts), requires_grad=False)

        hidden, attention = config.hidden, self.attention
        projections = [f"self_attn.{letter}_proj" for letter in "qkv"]
        self.norm1, self.norm2 = weight("input_layernorm.weight", hidden), weight("post_attention_layernorm.weight", hidden)
        self.qkv = joined([p + ".weight" for p in projections], *((width, hidden) for width in attention.widths))
        self.bias = joined([p + ".bias" for p in projections], *((width,) for width in attention.widths)) \
            if attention.bias else None
        if attention.qk_norm != "none":
            per_head = attention.qk_norm == "per_head"
            self.q_norm = weight("self_attn.q_norm.weight", attention.head if per_head else attention.widths[0])
            self.k_norm = weight("self_attn.k_norm.weight", attention.head if per_head else attention.widths[1])
        self.out = weight("self_attn.o_proj.weight", hidden, attention.widths[0])
        self.dense = config.shared if self.sparse else config.mlp  # width of the SwiGLU that every token uses
        if self.dense:
            name = "mlp.shared_experts." if self.sparse else "mlp."
            self.dense_gate_up = joined([name + "gate_proj.weight", name + "up_proj.weight"],
                                        (self.dense, hidden), (self.dense, hidden))
            self.dense_down = weight(name + "down_proj.weight", hidden, self.dense)
        if not self.sparse:
            return
        self.router = weight("mlp.gate.weight", config.experts, hidden)
        inner = config.expert_hidden
        gate_up = torch.empty(config.experts, 2 * inner, hidden, dtype=torch.bfloat16, device=device)
        down = torch.empty(config.experts, hidden, inner, dtype=torch.bfloat16, device=device)
        for e in range(config.experts):
            splat_fill(gate_up[e, :inner], seed, f"{prefix}mlp.experts.{e}.gate_proj.weight")
            splat_fill(gate_up[e, inner:], seed, f"{prefix}mlp.experts.{e}.up_proj.weight")
            splat_fill(down[e], seed, f"{prefix}mlp.experts.{e}.down_proj.weight")
        self.gate_up = torch.nn.Parameter(gate_up, requires_grad=False)
        self.down = torch.nn.Parameter(down, requires_grad=False)

    def forward(self, x, scale, k_cache, v_cache, positions, cos, sin, mask, how):
        """x [B, T, H]; caches [B, kv_heads, C, head]; positions [T]; mask [T, C], or none for a prompt from 0."""
        x = x + scale * self.attend(x, k_cache, v_cache, positions, cos, sin, mask)
        flat = F.rms_norm(x, (self.config.hidden,), self.norm2, self.config.eps).view(-1, self.config.hidden)
        update = self.route(flat, how) if self.sparse else 0
        if self.dense:
            gate, up = F.linear(flat, self.dense_gate_up).chunk(2, -1)
            update = update + F.linear(F.silu(gate) * up, self.dense_down)
        return x + scale * update.view_as(x)

    def attend(self, x, k_cache, v_cache, positions, cos, sin, mask):
        config, attention = self.config, self.attention
        batch, count, _ = x.shape
        normed = F.rms_norm(x, (config.hidden,), self.norm1, config.eps)
        q, k, v = F.linear(normed, self.qkv, self.bias).split(attention.widths, -1)
        if attention.qk_norm == "full_width":
            q, k = (F.rms_norm(t, w.shape, w, config.eps) for t, w in ((q, self.q_norm), (k, self.k_norm)))
        q, k, v = (t.view(batch, count, -1, attention.head).transpose(1, 2) for t in (q, k, v))
        if attention.qk_norm == "per_head":
            q, k = (F.rms_norm(t, w.shape, w, config.eps) for t, w in ((q, self.q_norm), (k, self.k_norm)))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k_cache.index_copy_(2, positions, k)
        v_cache.index_copy_(2, positions, v)
        if mask is None:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        else:
            y = F.scaled_dot_product_attention(q, k_cache, v_cache, attn_mask=mask, enable_gqa=True)
        return F.linear(y.transpose(1, 2).reshape(batch, count, -1), self.out)

    def route(self, flat, how):
        config = self.config
        logits = F.linear(flat, self.router).float()
        _, chosen = logits.topk(config.top_k, -1)
        share = logits.sigmoid() if config.sigmoid else logits.softmax(-1)
        share = share.gather(-1, chosen)
        if config.renormalize:
            share = share / share.sum(-1, keepdim=True)
        return EXPERTS[how](self, flat, chosen, share.to(flat.dtype))


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def batched_mm(layer, x, chosen, share):
    """Expert weights are gathered for each (token, expert) pair."""
    count, top_k = chosen.shape
    pairs = chosen.reshape(-1)
    x = x.repeat_interleave(top_k, 0).unsqueeze(-1)
    gate, up = torch.bmm(layer.gate_up[pairs], x).squeeze(-1).chunk(2, -1)
    y = torch.bmm(layer.down[pairs], (F.silu(gate) * up).unsqueeze(-1)).squeeze(-1)
    return (y.view(count, top_k, -1) * share.unsqueeze(-1)).sum(1)


def grouped_mm(layer, x, chosen, share):
    """Pairs are sorted by expert; each expert's rows are one group of a grouped product."""
    count, top_k = chosen.shape
    pairs = chosen.reshape(-1)
    order = pairs.argsort()
    ends = torch.bincount(pairs, minlength=layer.config.experts).cumsum(0).to(torch.int32)
    gate, up = torch._grouped_mm(x[order // top_k], layer.gate_up.transpose(1, 2), offs=ends).chunk(2, -1)
    y = torch._grouped_mm(F.silu(gate) * up, layer.down.transpose(1, 2), offs=ends)
    back = torch.empty_like(y)
    back[order] = y
    return (back.view(count, top_k, -1) * share.unsqueeze(-1)).sum(1)


EXPERTS = {"batched_mm": batched_mm, "grouped_mm": grouped_mm}


class SmeltForCausalLM(torch.nn.Module):
    def __init__(self, config, device, seed):
        super().__init__()
        self.config, self.device = config, device

        def weight(name, *shape):
            tensor = torch.empty(*shape, dtype=torch.bfloat16, device=device)
            splat_fill(tensor, seed, name)
            return torch.nn.Parameter(tensor, requires_grad=False)

        self.embedding = weight("model.embed_tokens.weight", config.vocab, config.hidden)
        self.norm = weight("model.norm.weight", config.hidden)
        self.head = self.embedding if config.tied else weight("lm_head.weight", config.vocab, config.hidden)
        self.layers = torch.nn.ModuleList(Layer(config, i, device, seed) for i in range(len(config.layers)))
        self.runs = list(self.layers)

    def set_compiled(self, compiled):
        """One compilation serves all layers: their weights are inputs of it."""
        self.runs = [torch.compile(layer, fullgraph=True, mode="max-autotune-no-cudagraphs", dynamic=False)
                     for layer in self.layers] if compiled else list(self.layers)

    def cache(self, batch, capacity):
        attentions = [self.config.layers[layer][0] for layer, _ in self.config.schedule]
        make = lambda: [torch.zeros((batch, a.kv_heads, capacity, a.head), dtype=torch.bfloat16, device=self.device)
                        for a in attentions]
        rotations = {}
        for a in attentions:
            angles = torch.arange(capacity, dtype=torch.float64).unsqueeze(-1) * \
                a.theta ** (-2.0 * torch.arange(a.head // 2, dtype=torch.float64) / a.head)
            rotations[a.theta, a.head] = [f.to(torch.bfloat16).to(self.device) for f in (angles.cos(), angles.sin())]
        return {"k": make(), "v": make(), "capacity": capacity, "rotations": rotations}

    def forward(self, tokens, positions, cache, how, all_rows=False):
        """tokens [B, T] at positions [T] of every sequence; logits of the last, or of all."""
        x = F.embedding(tokens, self.embedding)
        rotations = {key: [table[positions] for table in tables] for key, tables in cache["rotations"].items()}
        mask = None
        if tokens.shape[1] == 1:
            mask = torch.arange(cache["capacity"], device=self.device).unsqueeze(0) <= positions.unsqueeze(-1)
        for slot, (layer, scale) in enumerate(self.config.schedule):
            attention = self.config.layers[layer][0]
            cos, sin = rotations[attention.theta, attention.head]
            x = self.runs[layer](x, scale, cache["k"][slot], cache["v"][slot], positions, cos, sin, mask, how)
        x = x if all_rows else x[:, -1:]
        return F.linear(F.rms_norm(x, (self.config.hidden,), self.norm, self.config.eps), self.head).float()


def capture(step):
    """The step as one CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def seconds(run, count):
    for _ in range(3):
        run()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    events[0].record()
    for i in range(count):
        run()
        events[i + 1].record()
    torch.cuda.synchronize()
    return sorted(events[i].elapsed_time(events[i + 1]) for i in range(count))[count // 2] * 1e-3


def decode_step(model, batch, context, how):
    cache = model.cache(batch, context + 64)
    for tensor in cache["k"] + cache["v"]:
        tensor.normal_()
    tokens = torch.randint(model.config.vocab, (batch, 1), device=model.device)
    positions = torch.full((1,), context, dtype=torch.int64, device=model.device)

    def step():
        tokens.copy_(model(tokens, positions, cache, how).argmax(-1))

    return step


def prefill_step(model, prompt, how):
    cache = model.cache(1, prompt)
    tokens = torch.randint(model.config.vocab, (1, prompt), device=model.device)
    positions = torch.arange(prompt, device=model.device)
    return lambda: model(tokens, positions, cache, how)


def best(variants):
    """The fastest of (name, function that makes a run); what failed is told."""
    fastest, problems = None, []
    for name, make in variants:
        try:
            time = seconds(make(), 20)
            if fastest is None or time < fastest[1]:
                fastest = (name, time)
        except Exception as problem:  # a variant that does not run is no baseline
            problems.append(f"{name}: {type(problem).__name__}: {str(problem).splitlines()[0][:160]}")
            torch.cuda.empty_cache()
    return fastest, problems


def measure(model, arguments, results):
    name = model.config.name
    compiled = [False, True] if arguments.compile else [False]

    def variants(make, graphs, small):
        for compile_layers in compiled:
            for how in ("batched_mm", "grouped_mm"):
                if how == "batched_mm" and not small:
                    continue  # its copies of weights would take more than the memory there is
                for graph in (True, False) if graphs else (False,):
                    def build(compile_layers=compile_layers, how=how, graph=graph):
                        model.set_compiled(compile_layers)
                        step = make(how)
                        return capture(step) if graph else step
                    yield how + (" compiled" if compile_layers else " eager") + (" graph" if graph else ""), build

    def record(kind, size, found):
        fastest, problems = found
        for problem in problems:
            results.setdefault("peer_problems", []).append(f"{name} {kind} {size}: {problem}")
        if fastest:
            tokens = size
            results.setdefault("peers", []).append({"model": name, "kind": kind, "size": size, "how": fastest[0],
                                                    "seconds": fastest[1], "tokens_per_second": tokens / fastest[1]})
            print(f"  {name} {kind} {size}: {fastest[1] * 1e3:.3f} ms, {fastest[0]}", flush=True)

    for batch in arguments.batch:
        record("decode", batch, best(variants(lambda how: decode_step(model, batch, arguments.context, how), True, batch <= 64)))
    for prompt in arguments.prefill:
        record("prefill", prompt, best(variants(lambda how: prefill_step(model, prompt, how), False, False)))


def numbers(text):
    return [int(part) for part in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--specs", nargs="+", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", help="JSON file to add the times to")
    parser.add_argument("--batch", type=numbers, default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--prefill", type=numbers, default=[128, 512, 2048, 4096, 8192])
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    parser.add_argument("--logits", help="write the logits of --tokens, f32 .npy, and stop")
    parser.add_argument("--tokens", type=numbers)
    arguments = parser.parse_args()
    torch.set_grad_enabled(False)
    torch.set_float32_matmul_precision("high")
    if arguments.compile:
        from torch._inductor import config as inductor
        # Turns a product with a vector into a fused gather and sum: no copies of expert weights.
        inductor.coordinate_descent_tuning = True
    results = {}
    if arguments.results:
        with open(arguments.results, encoding="utf-8") as file:
            results = json.load(file)
    status = 0
    for path in arguments.specs:
        try:
            model = SmeltForCausalLM(Config(path), arguments.device, arguments.seed)
            if arguments.logits:
                import numpy

                cache = model.cache(1, len(arguments.tokens))
                positions = torch.arange(len(arguments.tokens), device=arguments.device)
                tokens = torch.tensor([arguments.tokens], device=arguments.device)
                logits = model(tokens, positions, cache, "batched_mm", all_rows=True)
                numpy.save(arguments.logits, logits[0].cpu().numpy())
                continue
            measure(model, arguments, results)
        except (ValueError, RuntimeError) as problem:
            results.setdefault("peer_problems", []).append(f"{path}: {problem}")
            print(f"{path}: {problem}", file=sys.stderr)
            status = 3
        model = None
        if arguments.device != "cpu":
            torch.cuda.empty_cache()
    if arguments.results:
        with open(arguments.results, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=2)
            file.write("\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
