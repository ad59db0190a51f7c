"""The golden cases: a smeltc spec beside the transformers models that mean the same."""

from collections.abc import Callable
from dataclasses import dataclass

from looped import Segment
from models import build


@dataclass
class Case:
    name: str
    about: str  # first line of the spec, as a comment
    spec: dict  # the smeltc spec
    segments: Callable[[int], list[Segment]]  # from a seed
    tokens: int = 11
    seed: int = 1


def spec(name: str, attention: dict, segment: list[dict], **sections) -> dict:
    model = dict(name=name, vocab_size=48, hidden_size=16, norm_eps=sections.pop("norm_eps", 1e-6))
    model["tie_embeddings"] = sections.pop("tie_embeddings", False)
    return dict(model=model, attention=attention, **sections, segment=segment)


def attention(**changes) -> dict:
    base = dict(query_heads=4, kv_heads=2, head_dim=6, rope_theta=10000.0, qk_norm="none", qkv_bias=False)
    return {**base, **changes}


def moe(experts: int, top_k: int, width: int, **changes) -> dict:
    base = dict(experts=experts, top_k=top_k, expert_hidden_size=width, router="softmax", renormalize=True)
    return {**base, **changes}


def whole(model) -> list[Segment]:
    return [Segment(model, 0, len(model.model.layers))]


def span(model, outer: int, looped: int, **loop) -> list[Segment]:
    """Layers [0, outer) once, then `looped` layers by `loop`, then the rest once."""
    rest = len(model.model.layers) - outer - looped
    return [Segment(model, 0, outer), Segment(model, outer, looped, **loop), Segment(model, outer + looped, rest)]


def qwen3_moe(seed: int, theta: float = 10000.0, **fields):
    base = dict(head_dim=6, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=7, intermediate_size=20)
    return build("qwen3_moe", seed, theta, **{**base, "norm_topk_prob": True, "num_hidden_layers": 3, **fields})


def olmoe(seed: int, **fields):
    base = dict(num_experts=6, num_experts_per_tok=2, intermediate_size=6, rms_norm_eps=1e-5)
    return build("olmoe", seed, 10000.0, **{**base, "norm_topk_prob": False, "num_hidden_layers": 3, **fields})


def glm4_moe(seed: int, **fields):
    base = dict(
        head_dim=6, attention_bias=True, use_qk_norm=True, n_routed_experts=6, num_experts_per_tok=2,
        moe_intermediate_size=5, n_shared_experts=2, intermediate_size=18, first_k_dense_replace=1,
        norm_topk_prob=True, routed_scaling_factor=1.0, n_group=1, topk_group=1, num_hidden_layers=3,
    )  # fmt: skip
    return build("glm4_moe", seed, 50000.0, **{**base, "rms_norm_eps": 1e-5, "num_mtp_layers": 0, **fields})


GLM_SPEC = dict(
    attention=attention(qk_norm="per_head", qkv_bias=True, rope_theta=50000.0),
    moe=moe(6, 2, 5, router="sigmoid", shared_experts=2, shared_expert_hidden_size=5),
    mlp=dict(hidden_size=18),
    norm_eps=1e-5,
)


def mixed_attention(seed: int) -> list[Segment]:
    outer = qwen3_moe(seed, num_hidden_layers=2)
    inner = qwen3_moe(
        seed + 1000, 500.0, num_hidden_layers=1, num_attention_heads=3, num_key_value_heads=1, head_dim=10
    )
    return [Segment(outer, 0, 1), Segment(inner, 0, 1, visits=2), Segment(outer, 1, 1)]


CASES = [
    Case(
        "qwen3-moe",
        "Qwen3-MoE: per-head QK-norm, query width 24 over hidden size 16, a dense layer between MoE layers.",
        spec(
            "qwen3-moe",
            attention(qk_norm="per_head"),
            [dict(layers=1), dict(layers=1, ffn="dense"), dict(layers=1)],
            moe=moe(5, 2, 7),
            mlp=dict(hidden_size=20),
        ),
        lambda seed: whole(qwen3_moe(seed, mlp_only_layers=[1])),
    ),
    Case(
        "qwen3-moe-raw-topk",
        "Qwen3-MoE: router weights not renormalised, every second layer sparse, tied embeddings.",
        spec(
            "qwen3-moe-raw-topk",
            attention(qk_norm="per_head", rope_theta=1000000.0),
            [dict(layers=1, ffn="dense"), dict(layers=1), dict(layers=1, ffn="dense"), dict(layers=1)],
            moe=moe(7, 3, 5, renormalize=False),
            mlp=dict(hidden_size=12),
            tie_embeddings=True,
        ),
        lambda seed: whole(
            qwen3_moe(
                seed, 1000000.0, norm_topk_prob=False, decoder_sparse_step=2, num_hidden_layers=4,
                num_experts=7, num_experts_per_tok=3, moe_intermediate_size=5, intermediate_size=12,
                tie_word_embeddings=True,
            )  # fmt: skip
        ),
        tokens=17,
    ),
    Case(
        "olmoe",
        "OLMoE: QK-norm over the full width, router weights not renormalised.",
        spec(
            "olmoe",
            attention(head_dim=4, qk_norm="full_width"),
            [dict(layers=3)],
            moe=moe(6, 2, 6, renormalize=False),
            norm_eps=1e-5,
        ),
        lambda seed: whole(olmoe(seed)),
    ),
    Case(
        "mixtral",
        "Mixtral: no QK-norm, every expert chosen, as many KV heads as query heads.",
        spec("mixtral", attention(kv_heads=4, head_dim=4), [dict(layers=2)], moe=moe(3, 3, 9)),
        lambda seed: whole(
            build(
                "mixtral", seed, 10000.0, num_hidden_layers=2, num_local_experts=3, num_experts_per_tok=3,
                intermediate_size=9, num_key_value_heads=4, head_dim=4, rms_norm_eps=1e-6, sliding_window=None,
            )  # fmt: skip
        ),
        tokens=9,
    ),
    Case(
        "qwen3-dense",
        "Qwen3: dense SwiGLU layers, per-head QK-norm, head_dim 10, tied embeddings.",
        spec(
            "qwen3-dense",
            attention(head_dim=10, qk_norm="per_head"),
            [dict(layers=2, ffn="dense")],
            mlp=dict(hidden_size=23),
            tie_embeddings=True,
        ),
        lambda seed: whole(
            build(
                "qwen3", seed, 10000.0, num_hidden_layers=2, intermediate_size=23, head_dim=10,
                tie_word_embeddings=True,
            )  # fmt: skip
        ),
    ),
    Case(
        "qwen2-dense",
        "Qwen2: dense SwiGLU layers, biases on Q, K and V, no QK-norm.",
        spec(
            "qwen2-dense",
            attention(head_dim=4, kv_heads=1, qkv_bias=True),
            [dict(layers=2, ffn="dense")],
            mlp=dict(hidden_size=23),
        ),
        lambda seed: whole(
            build("qwen2", seed, 10000.0, num_hidden_layers=2, intermediate_size=23, num_key_value_heads=1)
        ),
    ),
    Case(
        "glm4-moe",
        "GLM-4-MoE: sigmoid router, two shared experts, biases before per-head QK-norm, first layer dense.",
        spec("glm4-moe", segment=[dict(layers=1, ffn="dense"), dict(layers=2)], **GLM_SPEC),
        lambda seed: whole(glm4_moe(seed)),
    ),
    Case(
        "qwen3-moe-looped",
        "Qwen3-MoE layers looped: two middle layers visited twice in block order, residual scale 1/2.",
        spec(
            "qwen3-moe-looped",
            attention(qk_norm="per_head"),
            [dict(layers=1), dict(layers=2, visits=2), dict(layers=1)],
            moe=moe(5, 2, 7),
        ),
        lambda seed: span(qwen3_moe(seed, num_hidden_layers=4), 1, 2, visits=2),
        tokens=13,
    ),
    Case(
        "olmoe-looped-layer-order",
        "OLMoE layers looped: each of two middle layers visited three times in a row, residual scale 1/3.",
        spec(
            "olmoe-looped-layer-order",
            attention(head_dim=4, qk_norm="full_width"),
            [dict(layers=1), dict(layers=2, visits=3, order="layer"), dict(layers=1)],
            moe=moe(6, 2, 6, renormalize=False),
            norm_eps=1e-5,
        ),
        lambda seed: span(olmoe(seed, num_hidden_layers=4), 1, 2, visits=3, order="layer"),
        tokens=13,
    ),
    Case(
        "glm4-moe-looped",
        "GLM-4-MoE layers looped: sigmoid router and shared experts visited twice, residual scale 0.7.",
        spec(
            "glm4-moe-looped",
            segment=[dict(layers=1, ffn="dense"), dict(layers=2, visits=2, residual_scale=0.7)],
            **GLM_SPEC,
        ),
        lambda seed: (lambda m: [Segment(m, 0, 1), Segment(m, 1, 2, visits=2, scale=0.7)])(glm4_moe(seed)),
    ),
    Case(
        "mixed-attention-looped",
        "Qwen3-MoE layers of two geometries: the looped middle layer has other heads, head_dim and theta.",
        spec(
            "mixed-attention-looped",
            attention(qk_norm="per_head"),
            [
                dict(layers=1),
                dict(layers=1, visits=2, attention=dict(query_heads=3, kv_heads=1, head_dim=10, rope_theta=500.0)),
                dict(layers=1),
            ],
            moe=moe(5, 2, 7),
        ),
        mixed_attention,
    ),
]
