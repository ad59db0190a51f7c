"""torch_engine.py SPEC WEIGHTS.safetensors f32|bf16 --threads N: PyTorch on the CPU with transformers' modules.

Qwen3-MoE for models with per-head QK-norm, Mixtral for those without; both compute what the spec says. Executed layers are modules
of their own that share parameters, so that the weights of a loop are in memory once; its residual scale is folded into the attention
output and expert down projections. For every kind of request each of transformers' ways to run the experts is tried, eagerly and, with
--compile, under torch.compile, and the fastest is kept.
"""
import argparse
import sys
import time

import numpy
import torch
import transformers
from server import serve
from transformers import DynamicCache
from weights import Weights, read_shape

EXPERTS = ("eager", "grouped_mm", "batched_mm")
PREFILL_LIMIT = 64  # tokens; batched_mm copies the weights of every (token, expert), which no memory holds for long prompts


def configuration(shape):
    common = {
        "vocab_size": shape.vocab,
        "hidden_size": shape.hidden,
        "num_hidden_layers": len(shape.executed),
        "num_attention_heads": shape.query_heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "rms_norm_eps": shape.norm_eps,
        "rope_parameters": {"rope_type": "default", "rope_theta": shape.rope_theta},
        "tie_word_embeddings": shape.tied,
        "num_experts_per_tok": shape.top_k,
        "max_position_embeddings": 32768,
        "attn_implementation": "sdpa",
    }
    if shape.qk_norm == "per_head":
        return transformers.Qwen3MoeConfig(
            **common, moe_intermediate_size=shape.expert_hidden, num_experts=shape.experts, norm_topk_prob=shape.renormalize
        )
    if shape.qk_norm == "full_width" or not shape.renormalize:
        sys.exit(f"{shape.spec}: transformers has no model like it")
    return transformers.MixtralConfig(**common, intermediate_size=shape.expert_hidden, num_local_experts=shape.experts)


class Loader:
    """Parameters of the physical layers, each made once."""

    def __init__(self, shape, weights, dtype):
        self.shape, self.weights, self.dtype = shape, weights, dtype
        self.made = {}

    def tensor(self, name):
        bits = numpy.ascontiguousarray(self.weights.bits(name))
        tensor = torch.from_numpy(bits.view(numpy.int16) if bits.dtype == numpy.uint16 else bits.copy())
        return tensor.view(torch.bfloat16).clone() if bits.dtype == numpy.uint16 else tensor

    def parameter(self, key, make):
        if key not in self.made:
            self.made[key] = torch.nn.Parameter(make(), requires_grad=False)
        return self.made[key]

    def experts(self, prefix, name, scale=1.0):
        stack = []
        for expert in range(self.shape.experts):
            parts = [self.tensor(f"{prefix}.experts.{expert}.{part}.weight") for part in name]
            stack.append(torch.cat(parts) if len(parts) > 1 else parts[0])
        return torch.stack(stack).mul_(scale)

    def fill_layer(self, module, layer):
        prefix = f"model.layers.{layer.index}"

        def assign(path, make):
            owner, _, leaf = path.rpartition(".")
            module.get_submodule(owner)._parameters[leaf] = self.parameter(f"{prefix}.{path}", make)

        names = ["input_layernorm", "post_attention_layernorm", "mlp.gate"]
        names += [f"self_attn.{part}" for part in ("q_proj", "k_proj", "v_proj")]
        if self.shape.qk_norm == "per_head":
            names += ["self_attn.q_norm", "self_attn.k_norm"]
        for name in names:
            assign(f"{name}.weight", lambda: self.tensor(f"{prefix}.{name}.weight"))
        assign("self_attn.o_proj.weight", lambda: self.tensor(f"{prefix}.self_attn.o_proj.weight").mul_(layer.scale))
        assign("mlp.experts.gate_up_proj", lambda: self.experts(f"{prefix}.mlp", ("gate_proj", "up_proj")))
        assign("mlp.experts.down_proj", lambda: self.experts(f"{prefix}.mlp", ("down_proj",), layer.scale))

    def fill(self, model):
        for module, layer in zip(model.model.layers, self.shape.executed, strict=True):
            self.fill_layer(module, layer)
        head = "model.embed_tokens.weight" if self.shape.tied else "lm_head.weight"
        table = "model.embed_tokens.weight"
        model.model.embed_tokens.weight = self.parameter(table, lambda: self.tensor(table))
        model.model.norm.weight = self.parameter("norm", lambda: self.tensor("model.norm.weight"))
        model.lm_head.weight = self.parameter(head, lambda: self.tensor(head))


def load(shape, path, dtype):
    config = configuration(shape)
    kind = {transformers.Qwen3MoeConfig: transformers.Qwen3MoeForCausalLM, transformers.MixtralConfig: transformers.MixtralForCausalLM}
    with torch.device("meta"):
        model = kind[type(config)](config).to(dtype).eval()
    Loader(shape, Weights(path), dtype).fill(model)
    model.model.rotary_emb = type(model.model.rotary_emb)(config)  # its table was made on the meta device
    return model


class Torch:
    def __init__(self, model, compiles):
        self.model = model
        self.compiled = torch.compile(model) if compiles else None
        self.best = {}  # by kind of request: (experts' implementation, whether compiled)
        self.cache = self.way = None

    def forward(self, way, tokens, cache):
        experts, compiled = way
        self.model.config._experts_implementation = experts
        with torch.inference_mode():
            ids = torch.tensor(tokens, dtype=torch.int64)
            run = self.compiled if compiled else self.model
            return run(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1].float()

    def fastest(self, key, tokens, run):
        """The way that runs this kind of request fastest, tried once."""
        if key not in self.best:
            times = {}
            for way in [(experts, compiled) for compiled in {False, self.compiled is not None} for experts in EXPERTS]:
                if way[0] == "batched_mm" and tokens > PREFILL_LIMIT:
                    continue
                try:
                    run(way)  # compiles, and brings weights into memory
                    start = time.perf_counter()
                    run(way)
                    times[way] = time.perf_counter() - start
                except Exception as error:
                    print(f"{key}: {way} failed: {error}", file=sys.stderr)
            self.best[key] = min(times, key=times.get)
            print(f"{key}: {self.best[key]} of {times}", file=sys.stderr)
        return self.best[key]

    def prefill(self, tokens):
        run = lambda way: self.forward(way, [tokens], DynamicCache())
        way = self.fastest(("prefill", len(tokens)), len(tokens), run)
        return run(way)[0].numpy()

    def start(self, contexts):
        """The contexts have one length."""

        def fill():
            self.cache = DynamicCache()
            self.forward(("eager", False), contexts, self.cache)

        def step(way):
            fill()
            for _ in range(4):
                self.forward(way, [[0]] * len(contexts), self.cache)

        self.way = self.fastest(("decode", len(contexts)), len(contexts), step)
        fill()

    def step(self, tokens):
        self.forward(self.way, [[token] for token in tokens], self.cache)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("spec")
    parser.add_argument("weights")
    parser.add_argument("dtype", choices=("f32", "bf16"))
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--compile", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    dtype = torch.bfloat16 if arguments.dtype == "bf16" else torch.float32
    model = load(read_shape(arguments.spec), arguments.weights, dtype)
    serve(Torch(model, arguments.compile), {"version": f"PyTorch {torch.__version__}, transformers {transformers.__version__}"})


if __name__ == "__main__":
    main()
