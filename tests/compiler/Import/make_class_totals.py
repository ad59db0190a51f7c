#!/usr/bin/env python3
"""Writes class_totals.json: small random configs and the parameters of the models their classes build.

Needs torch and transformers; run by hand when a family is added:
    make_class_totals.py > class_totals.json
Models are built on the meta device, so nothing is allocated.
"""
import json
import random
import sys

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

DRAWS_PER_FAMILY = 6
DENSE = ["llama", "qwen2", "qwen3", "mistral", "gemma", "gemma2", "gemma3_text"]
LOCAL_EXPERTS = ["mixtral", "granitemoe", "granitemoeshared", "phimoe", "gpt_oss", "llama4_text"]
QWEN = ["qwen2_moe", "qwen3_moe", "qwen3_next"]
ROUTED_EXPERTS = ["deepseek_v2", "deepseek_v3", "glm4_moe"]
FAMILIES = DENSE + LOCAL_EXPERTS + ["olmoe"] + QWEN + ROUTED_EXPERTS
# Chosen by the router and stored in checkpoints, but a buffer of the class.
CORRECTION_BIAS = "e_score_correction_bias"


class Draw:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def whole(self, low, high):
        return self.random.randrange(low, high + 1)

    def coin(self):
        return self.random.random() < 0.5

    def one_of(self, *values):
        return self.random.choice(values)


def trunk(draw, family):
    kv_heads = draw.one_of(1, 2, 4)
    heads = kv_heads * draw.one_of(1, 2, 4)
    config = dict(
        model_type=family,
        vocab_size=draw.whole(50, 300),
        hidden_size=heads * draw.one_of(8, 16, 24),
        num_hidden_layers=draw.whole(1, 8),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        tie_word_embeddings=draw.coin(),
        intermediate_size=draw.whole(8, 200),
    )
    if family not in ("qwen2", "qwen2_moe", "mistral", "mixtral"):
        config["attention_bias"] = draw.coin()
    if family not in ("qwen2", "qwen2_moe", "olmoe", "granitemoe", "granitemoeshared", "phimoe") + tuple(
        ROUTED_EXPERTS[:2]
    ):
        config["head_dim"] = draw.one_of(8, 16, 32)
    return config


def add_experts(draw, family, config):
    experts = draw.whole(2, 8)
    if family in LOCAL_EXPERTS:
        config.update(num_local_experts=experts, num_experts_per_tok=draw.whole(1, experts))
    if family == "olmoe" or family in QWEN:
        config.update(num_experts=experts, num_experts_per_tok=draw.whole(1, experts))
    if family in QWEN:
        config.update(
            moe_intermediate_size=draw.whole(4, 60),
            decoder_sparse_step=draw.whole(1, 3),
            mlp_only_layers=[i for i in range(config["num_hidden_layers"]) if draw.whole(0, 4) == 0],
        )
    if family in ROUTED_EXPERTS:
        config.update(
            moe_intermediate_size=draw.whole(4, 60),
            n_routed_experts=draw.one_of(4, 8),
            num_experts_per_tok=2,
            n_shared_experts=draw.whole(1, 2),
            first_k_dense_replace=draw.whole(0, 3),
            n_group=1,
            topk_group=1,
        )


def add_own_keys(draw, family, config):
    if family == "llama":
        config["mlp_bias"] = draw.coin()
    if family == "phimoe":
        config["lm_head_bias"] = draw.coin() and not config["tie_word_embeddings"]
    if family == "granitemoeshared":
        config["shared_intermediate_size"] = draw.one_of(0, 24, 64)
    if family in ("qwen2_moe", "qwen3_next"):
        config["shared_expert_intermediate_size"] = draw.whole(4, 60)
    if family == "qwen2_moe":
        config["qkv_bias"] = draw.coin()
    if family == "qwen3_next":
        config.update(
            linear_num_key_heads=2,
            linear_num_value_heads=draw.one_of(2, 4),
            linear_key_head_dim=draw.one_of(8, 16),
            linear_value_head_dim=draw.one_of(8, 16),
            linear_conv_kernel_dim=draw.one_of(3, 4),
            full_attention_interval=draw.whole(1, 4),
        )
    if family == "llama4_text":
        config.update(intermediate_size_mlp=draw.whole(8, 100), interleave_moe_layer_step=draw.whole(1, 3))
    if family in ("deepseek_v2", "deepseek_v3"):
        config.update(
            q_lora_rank=draw.one_of(None, 12, 20),
            kv_lora_rank=draw.whole(8, 40),
            qk_nope_head_dim=draw.one_of(8, 16),
            qk_rope_head_dim=draw.one_of(4, 8),
            v_head_dim=draw.one_of(8, 12),
            num_key_value_heads=config["num_attention_heads"],
        )
    if family == "glm4_moe":
        config["use_qk_norm"] = draw.coin()


def parameters(config):
    keys = dict(config)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(keys.pop("model_type"), **keys))
    model.tie_weights()
    biases = sum(buffer.numel() for name, buffer in model.named_buffers() if name.endswith(CORRECTION_BIAS))
    return sum(parameter.numel() for parameter in model.parameters()) + biases


def main():
    rows = []
    for number, family in enumerate(FAMILIES * DRAWS_PER_FAMILY):
        draw = Draw(number)
        config = trunk(draw, family)
        add_experts(draw, family, config)
        add_own_keys(draw, family, config)
        rows.append({"config": config, "parameters": parameters(config)})
    lines = ",\n".join(json.dumps(row, sort_keys=True) for row in rows)
    sys.stdout.write(f'{{"transformers": "{transformers.__version__}", "models": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
