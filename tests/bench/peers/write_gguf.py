"""write_gguf.py SPEC WEIGHTS.safetensors OUT.gguf f32|bf16|i8

A GGUF that llama.cpp runs as the same model: executed layers unrolled, the residual scale of a loop folded into the attention output
and expert down projections (exact for the powers of two the published shapes use). Models with per-head QK-norm become architecture
qwen3moe, those without it llama with experts (Mixtral), whose RoPE rotates neighbouring elements, so that their Q and K rows are
reordered. i8 is Q8_0, and BF16 where a row is no multiple of its 32; router and norms are F32, as llama.cpp wants them.
"""
import os
import sys

import gguf
import numpy
from gguf import GGMLQuantizationType as Type
from weights import Weights, read_shape, to_bf16

TYPES = {"f32": Type.F32, "bf16": Type.BF16, "i8": Type.Q8_0}
FILE_TYPES = {"f32": gguf.LlamaFileType.ALL_F32, "bf16": gguf.LlamaFileType.MOSTLY_BF16, "i8": gguf.LlamaFileType.MOSTLY_Q8_0}


def neighbouring_pairs(rows, heads):
    """Rows of a projection whose RoPE pairs (i, i + d/2), reordered for one that pairs (2i, 2i + 1)."""
    return rows.reshape(heads, 2, -1, rows.shape[-1]).swapaxes(1, 2).reshape(rows.shape)


class Tensor:
    """One tensor of the file, computed when it is written: the whole model need not fit in memory."""

    def __init__(self, name, shape, kind, make):
        self.name, self.shape, self.make = name, shape, make
        self.kind = kind if kind != Type.Q8_0 or shape[-1] % 32 == 0 else Type.BF16

    def byte_shape(self):
        block, size = gguf.GGML_QUANT_SIZES[self.kind]
        return (*self.shape[:-1], self.shape[-1] // block * size)

    def bytes(self):
        values = self.make()
        if self.kind == Type.F32:
            return numpy.ascontiguousarray(values, dtype=numpy.float32).view(numpy.uint8)
        if self.kind == Type.BF16:
            return to_bf16(values).view(numpy.uint8)
        return gguf.quants.quantize(numpy.ascontiguousarray(values), self.kind)


def layer_tensors(shape, weights, number, layer, kind, permute):
    def source(name):
        return f"model.layers.{layer.index}.{name}.weight"

    def matrix(name, rows, columns, source_name, transform=lambda values: values):
        return Tensor(f"blk.{number}.{name}.weight", (rows, columns), kind, lambda: transform(weights.f32(source(source_name))))

    def f32(name, dims, source_name):
        return Tensor(f"blk.{number}.{name}.weight", dims, Type.F32, lambda: weights.f32(source(source_name)))

    def experts(name, rows, columns, source_name, scale=1.0):
        def stack():
            parts = [weights.f32(source(f"mlp.experts.{expert}.{source_name}")) for expert in range(shape.experts)]
            stacked = numpy.stack(parts)
            return stacked * numpy.float32(scale) if scale != 1 else stacked

        return Tensor(f"blk.{number}.{name}.weight", (shape.experts, rows, columns), kind, stack)

    hidden, wide = shape.hidden, shape.expert_hidden
    rotate = (lambda heads: lambda rows: neighbouring_pairs(rows, heads)) if permute else (lambda heads: lambda rows: rows)
    yield f32("attn_norm", (hidden,), "input_layernorm")
    yield matrix("attn_q", shape.query_width, hidden, "self_attn.q_proj", rotate(shape.query_heads))
    yield matrix("attn_k", shape.kv_width, hidden, "self_attn.k_proj", rotate(shape.kv_heads))
    yield matrix("attn_v", shape.kv_width, hidden, "self_attn.v_proj")
    if shape.qk_norm == "per_head":
        yield f32("attn_q_norm", (shape.head_dim,), "self_attn.q_norm")
        yield f32("attn_k_norm", (shape.head_dim,), "self_attn.k_norm")
    scale = numpy.float32(layer.scale)
    yield matrix("attn_output", hidden, shape.query_width, "self_attn.o_proj", lambda rows: rows * scale)
    yield f32("ffn_norm", (hidden,), "post_attention_layernorm")
    yield f32("ffn_gate_inp", (shape.experts, hidden), "mlp.gate")
    yield experts("ffn_gate_exps", wide, hidden, "gate_proj")
    yield experts("ffn_up_exps", wide, hidden, "up_proj")
    yield experts("ffn_down_exps", hidden, wide, "down_proj", layer.scale)


def model_tensors(shape, weights, kind, permute):
    table = (shape.vocab, shape.hidden)
    yield Tensor("token_embd.weight", table, kind, lambda: weights.f32("model.embed_tokens.weight"))
    for number, layer in enumerate(shape.executed):
        yield from layer_tensors(shape, weights, number, layer, kind, permute)
    yield Tensor("output_norm.weight", (shape.hidden,), Type.F32, lambda: weights.f32("model.norm.weight"))
    if not shape.tied:
        yield Tensor("output.weight", table, kind, lambda: weights.f32("lm_head.weight"))


def main():
    spec, source, path, dtype = sys.argv[1:]
    shape = read_shape(spec)
    if shape.qk_norm == "full_width" or not shape.renormalize:
        sys.exit(f"{spec}: neither qwen3moe nor llama has {'full-width QK-norm' if shape.renormalize else 'unnormalised routing'}")
    qwen = shape.qk_norm == "per_head"
    draft = path + ".part"
    writer = gguf.GGUFWriter(draft, "qwen3moe" if qwen else "llama")
    writer.add_block_count(len(shape.executed))
    writer.add_context_length(32768)
    writer.add_embedding_length(shape.hidden)
    writer.add_feed_forward_length(shape.expert_hidden)
    writer.add_expert_feed_forward_length(shape.expert_hidden)
    writer.add_head_count(shape.query_heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_rope_dimension_count(shape.head_dim)
    writer.add_rope_freq_base(shape.rope_theta)
    writer.add_layer_norm_rms_eps(shape.norm_eps)
    writer.add_expert_count(shape.experts)
    writer.add_expert_used_count(shape.top_k)
    writer.add_vocab_size(shape.vocab)
    writer.add_tokenizer_model("none")
    writer.add_file_type(FILE_TYPES[dtype])

    tensors = list(model_tensors(shape, Weights(source), TYPES[dtype], permute=not qwen))
    for tensor in tensors:
        size = numpy.prod(tensor.byte_shape(), dtype=numpy.int64)
        writer.add_tensor_info(tensor.name, tensor.byte_shape(), numpy.dtype(numpy.uint8), int(size), tensor.kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for tensor in tensors:
        writer.write_tensor_data(tensor.bytes())
    writer.close()
    os.replace(draft, path)


if __name__ == "__main__":
    main()
