"""The benchmark's models: their specs, and what a step of them has to compute and read at least."""
import dataclasses
import pathlib
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]

# By the name the command line takes, in the order of the table. A looped model is followed by its matched baseline.
SPECS = {
    "tiny": "tests/bench/specs/bench-tiny.toml",
    "smelt-100m-s85": "specs/smelt/smelt-100m-s85.toml",
    "baseline-100m-s85": "specs/smelt/baseline-100m-s85.toml",
    "smelt-100m-s97": "specs/smelt/smelt-100m-s97.toml",
    "baseline-100m-s97": "specs/smelt/baseline-100m-s97.toml",
    "smelt-200m-s95": "specs/smelt/smelt-200m-s95.toml",
    "baseline-200m-s95": "specs/smelt/baseline-200m-s95.toml",
}
BASELINES = {name: name.replace("smelt", "baseline") for name in SPECS if name.startswith("smelt")}

DTYPES = ("f32", "bf16", "i8")
# Bytes an element: of the matrices, and of the rest (embedding, router, norms), which int8 models keep in bf16.
MATRIX_BYTES = {"f32": 4, "bf16": 2, "i8": 1 + 2 / 32}
OTHER_BYTES = {"f32": 4, "bf16": 2, "i8": 2}


class Unsupported(Exception):
    """A spec or a peer cannot be measured; the message says why."""


@dataclasses.dataclass(frozen=True)
class Layer:
    """One executed layer: the physical layer whose weights it uses, and the factor of its residual updates."""

    index: int
    scale: float


@dataclasses.dataclass(frozen=True)
class Shape:
    """A routed decoder as its spec describes it. Widths are in elements."""

    spec: str
    vocab: int
    hidden: int
    norm_eps: float
    tied: bool
    query_heads: int
    kv_heads: int
    head_dim: int
    rope_theta: float
    qk_norm: str
    experts: int
    top_k: int
    expert_hidden: int
    renormalize: bool
    layers: int  # physical
    executed: tuple  # of Layer, in order

    @property
    def query_width(self):
        return self.query_heads * self.head_dim

    @property
    def kv_width(self):
        return self.kv_heads * self.head_dim

    @property
    def attention_elements(self):
        return self.hidden * (2 * self.query_width + 2 * self.kv_width)

    @property
    def expert_elements(self):
        return 3 * self.hidden * self.expert_hidden

    def weight_bytes(self, dtype, unrolled=False):
        """Bytes of all weights; `unrolled` as an engine holds them that stores every executed layer."""
        layers = len(self.executed) if unrolled else self.layers
        matrices = layers * (self.attention_elements + self.experts * self.expert_elements)
        matrices += 0 if self.tied else self.vocab * self.hidden
        others = layers * self.experts * self.hidden + self.vocab * self.hidden
        return int(matrices * MATRIX_BYTES[dtype] + others * OTHER_BYTES[dtype])


def read_shape(spec):
    """The Shape of a spec file; raises Unsupported for what no peer can compute either."""
    path = ROOT / spec
    toml = tomllib.loads(path.read_text())
    model, attention, moe = toml["model"], toml["attention"], toml.get("moe", {})
    executed, first = [], 0
    for segment in toml["segment"]:
        if segment.get("attention") or segment.get("ffn", "moe") != "moe" or not moe:
            raise Unsupported(f"{spec}: the benchmark knows segments of one attention and routed experts alone")
        visits = segment.get("visits", 1)
        scale = segment.get("residual_scale", 1 / visits)
        run = range(first, first + segment["layers"])
        if segment.get("order", "block") == "block":
            executed += [Layer(layer, scale) for _ in range(visits) for layer in run]
        else:
            executed += [Layer(layer, scale) for layer in run for _ in range(visits)]
        first += segment["layers"]
    if moe.get("router", "softmax") != "softmax" or moe.get("shared_experts", 0) or attention.get("qkv_bias", False):
        raise Unsupported(f"{spec}: the benchmark knows softmax routers without shared experts or biases alone")
    return Shape(
        spec=spec,
        vocab=model["vocab_size"],
        hidden=model["hidden_size"],
        norm_eps=model.get("norm_eps", 1e-6),
        tied=model.get("tie_embeddings", False),
        query_heads=attention["query_heads"],
        kv_heads=attention["kv_heads"],
        head_dim=attention["head_dim"],
        rope_theta=attention.get("rope_theta", 10000.0),
        qk_norm=attention.get("qk_norm", "none"),
        experts=moe["experts"],
        top_k=moe["top_k"],
        expert_hidden=moe["expert_hidden_size"],
        renormalize=moe.get("renormalize", True),
        layers=first,
        executed=tuple(executed),
    )


@dataclasses.dataclass(frozen=True)
class Work:
    """What a sample computes and what it has to read or write in memory at least."""

    flops: float
    bytes: float


def work(shape, dtype, kv_bytes, sequences, first, tokens, steps, distinct, passes):
    """Work of `steps` steps that each feed `tokens` tokens to each of `sequences` sequences, the first of them at
    position `first`, and ask for the logits of the last.

    `kv_bytes` is the size of one cached position over all executed layers. `distinct` is the number of experts used,
    summed over executed layers and passes; `passes` how often all other weights were read: a long prompt runs in several.
    A multiply-add counts as two operations. Every weight counts once a pass and executed layer, every cached
    position once a step.
    """
    layers = len(shape.executed)
    per_token = 2 * layers * (shape.attention_elements + shape.hidden * shape.experts + shape.top_k * shape.expert_elements)
    total_tokens = sequences * steps * tokens
    positions = sum(range(first + 1, first + steps * tokens + 1))  # that the tokens of one sequence attend to
    attention = 4 * layers * shape.query_width * sequences * positions
    head = 2 * shape.hidden * shape.vocab * sequences * steps
    flops = per_token * total_tokens + attention + head

    matrix, other = MATRIX_BYTES[dtype], OTHER_BYTES[dtype]
    weights = passes * layers * (shape.attention_elements * matrix + shape.hidden * (shape.experts + 2) * other)
    weights += distinct * shape.expert_elements * matrix
    head_bytes = shape.hidden * shape.vocab * (other if shape.tied else matrix)
    weights += steps * head_bytes + total_tokens * shape.hidden * other
    read = sum(first + (step + 1) * tokens for step in range(steps)) * sequences
    return Work(flops, weights + kv_bytes * (read + total_tokens))
