"""Looping in plain PyTorch: the decoder layers of transformers' models, visited more than once.

A segment visits its layers again with the same weights. Every write to the residual stream is scaled:
x1 = x + s * attn(norm(x)); x2 = x1 + s * ffn(norm(x1)). Each visit computes its own keys and values.
"""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Segment:
    model: nn.Module  # the transformers ...ForCausalLM whose layers these are
    first: int  # its layers [first, first + layers)
    layers: int
    visits: int = 1
    order: str = "block"
    scale: float | None = None  # 1/visits when not given

    @property
    def residual_scale(self) -> float:
        return 1.0 / self.visits if self.scale is None else self.scale

    def schedule(self) -> list[nn.Module]:
        """The layers in execution order."""
        blocks = list(self.model.model.layers[self.first : self.first + self.layers])
        if self.order == "block":
            return [block for _ in range(self.visits) for block in blocks]
        return [block for block in blocks for _ in range(self.visits)]


def causal_mask(tokens: int) -> torch.Tensor:
    """[1, 1, tokens, tokens], added to the attention scores."""
    return torch.full((tokens, tokens), float("-inf")).triu(1)[None, None]


def looped_logits(segments: list[Segment], tokens: torch.Tensor) -> torch.Tensor:
    """Logits [tokens, vocab] of the segments run one after the other on one sequence [tokens].

    Embedding, final norm and head are those of the first segment's model.
    """
    outer = segments[0].model
    positions = torch.arange(len(tokens))[None]
    mask = causal_mask(len(tokens))
    x = outer.model.embed_tokens(tokens[None])
    for segment in segments:
        rope = segment.model.model.rotary_emb(x, positions)
        s = segment.residual_scale
        for layer in segment.schedule():
            attention, _ = layer.self_attn(
                hidden_states=layer.input_layernorm(x), position_embeddings=rope, attention_mask=mask
            )
            x = x + s * attention
            x = x + s * layer.mlp(layer.post_attention_layernorm(x))
    return outer.lm_head(outer.model.norm(x))[0]
