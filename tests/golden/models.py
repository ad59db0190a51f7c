"""Tiny random models of transformers' classes, and their weights under Hugging Face checkpoint names."""

import re

import torch
from torch import nn
from transformers import (
    Glm4MoeConfig,
    Glm4MoeForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    OlmoeConfig,
    OlmoeForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

CLASSES = {
    "glm4_moe": (Glm4MoeConfig, Glm4MoeForCausalLM),
    "mixtral": (MixtralConfig, MixtralForCausalLM),
    "olmoe": (OlmoeConfig, OlmoeForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    "qwen3_moe": (Qwen3MoeConfig, Qwen3MoeForCausalLM),
}

# What every tiny model shares unless a case says otherwise.
COMMON = dict(
    vocab_size=48,
    hidden_size=16,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
    pad_token_id=None,
    bos_token_id=None,
    eos_token_id=None,
    attn_implementation="eager",
)


def build(kind: str, seed: int, rope_theta: float, **fields) -> nn.Module:
    """A model of CLASSES[kind] in f32 whose every weight has an effect worth measuring."""
    config_class, model_class = CLASSES[kind]
    rope = {"rope_type": "default", "rope_theta": rope_theta, "partial_rotary_factor": 1.0}
    config = config_class(**{**COMMON, "rope_parameters": rope, **fields})
    config._experts_implementation = "eager"
    model = model_class(config).to(torch.float32).eval()
    randomise(model, torch.Generator().manual_seed(seed))
    return model


def weight_std(name: str, shape: torch.Size) -> float:
    """Standard deviations that keep the residual stream near 1 and the routing spread over the experts."""
    if "embed_tokens" in name:
        return 1.0
    if name.endswith(".bias"):
        return 0.3
    if name.endswith("mlp.gate.weight"):
        return 1.5 / shape[-1] ** 0.5
    return 1.0 / shape[-1] ** 0.5


def randomise(model: nn.Module, generator: torch.Generator) -> None:
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        is_norm = parameter.ndim == 1 and name.endswith("norm.weight")
        values = 1.0 + 0.2 * noise if is_norm else weight_std(name, parameter.shape) * noise
        parameter.data.copy_(values)
        parameter.requires_grad_(True)


def checkpoint(named: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Renames to the published checkpoint layout: one tensor per expert, gate and up apart."""
    out = {}
    for name, tensor in named.items():
        fused = re.fullmatch(r"(.*\.mlp\.experts)\.(gate_up_proj|down_proj)", name)
        if not fused:
            out[name] = tensor
            continue
        prefix, kind = fused.groups()
        for expert, matrix in enumerate(tensor):
            parts = {"down_proj": matrix}
            if kind == "gate_up_proj":
                gate, up = matrix.chunk(2, dim=0)
                parts = {"gate_proj": gate, "up_proj": up}
            for part, values in parts.items():
                out[f"{prefix}.{expert}.{part}.weight"] = values
    return {name: tensor.contiguous() for name, tensor in out.items()}


def parameters(model: nn.Module) -> dict[str, torch.Tensor]:
    """Named parameters; a tied head appears once, as the embedding."""
    return {name: p for name, p in model.named_parameters()}
