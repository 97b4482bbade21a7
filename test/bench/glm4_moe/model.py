# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One rank's share of Hugging Face's Glm4Moe, split by rows and columns.

A rank has its part of the heads, of the experts' and the MLPs' inner columns, and
of the logits; what comes out of attention and of an MLP is a partial sum. The
modules are transformers' own, made with the smaller numbers. A layer so has two
places where partial sums are added up over the ranks, then to the residual, and
normed: the caller's `chain` does that.
"""

import zlib

import torch
import transformers
from transformers import Glm4MoeForCausalLM
from transformers.models.glm4_moe import modeling_glm4_moe

# Layer sizes of GLM-4.5-Air, and small ones for tests.
SIZES = {
    "air": dict(
        hidden_size=4096,
        num_attention_heads=96,
        num_key_value_heads=8,
        head_dim=128,
        intermediate_size=10944,
        moe_intermediate_size=1408,
        n_routed_experts=128,
        num_experts_per_tok=8,
        n_shared_experts=1,
        first_k_dense_replace=1,
        vocab_size=151552,
        attention_bias=True,
        use_qk_norm=False,
        rms_norm_eps=1e-5,
    ),
    "tiny": dict(
        hidden_size=64,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=16,
        intermediate_size=96,
        moe_intermediate_size=32,
        n_routed_experts=8,
        num_experts_per_tok=2,
        n_shared_experts=1,
        first_k_dense_replace=1,
        vocab_size=128,
        attention_bias=True,
        use_qk_norm=False,
        rms_norm_eps=1e-5,
    ),
}
SPLIT = (
    "num_attention_heads",
    "num_key_value_heads",
    "intermediate_size",
    "moe_intermediate_size",
)
# Of each parameter that is split, the dimension. Pairs (gate, up) that lie in one
# dimension are split each.
COLUMNS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "lm_head")
ROWS = ("o_proj", "down_proj")
PAIRS = ("gate_up_proj",)


def make_config(size, layers, world=1):
    """The configuration of a rank's share; with world 1 the whole model's."""
    numbers = dict(SIZES[size], num_hidden_layers=layers)
    for name in SPLIT:
        if numbers[name] % world:
            raise ValueError(f"{name} is {numbers[name]}, not a multiple of {world}")
        numbers[name] //= world
    return transformers.Glm4MoeConfig(**numbers)


def split_dimension(name):
    """The dimension of a parameter that is split over the ranks, or None."""
    parts = name.split(".")
    if any(part in PAIRS for part in parts):
        return 1
    if any(part in ROWS for part in parts):
        return -1
    if any(part in COLUMNS for part in parts):
        return 0
    return None


def take_share(name, whole, rank, world):
    """A rank's share of a whole model's parameter."""
    dimension = split_dimension(name)
    if dimension is None:
        return whole
    if any(part in PAIRS for part in name.split(".")):
        gate, up = whole.chunk(2, dimension)
        return torch.cat(
            [gate.chunk(world, dimension)[rank], up.chunk(world, dimension)[rank]],
            dimension,
        )
    return whole.chunk(world, dimension)[rank]


def make_model(size, layers, rank, world, device, dtype, experts="grouped_mm"):
    """A rank's share with memory, but no weights yet, on the device."""
    config = make_config(size, layers, world)
    with torch.device("meta"):
        model = Glm4MoeForCausalLM._from_config(
            config,
            dtype=dtype,
            attn_implementation="sdpa",
            experts_implementation=experts,
        )
        model.lm_head = torch.nn.Linear(
            config.hidden_size, config.vocab_size // world, bias=False, dtype=dtype
        )
    model.to_empty(device=device)
    # It computes its frequencies when it is made, which on "meta" gives nothing.
    model.model.rotary_emb = modeling_glm4_moe.Glm4MoeRotaryEmbedding(config).to(device)
    for layer in model.model.layers:
        # Each layer brings its own cache (below); so all are alike for the compiler.
        layer.self_attn.layer_idx = 0
    return model.eval().requires_grad_(False)


def fill_randomly(model, rank, seed=0):
    """Random weights, made where they lie: what is split differs from rank to
    rank, the rest is the same."""
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if "rotary_emb" in name:
            continue
        share = 0 if split_dimension(name) is None else rank + 1
        generator = torch.Generator(tensor.device)
        generator.manual_seed(zlib.crc32(f"{seed} {share} {name}".encode()))
        if "norm" in name:
            tensor.normal_(1, 0.1, generator=generator)
        elif "e_score_correction_bias" in name:
            tensor.normal_(0, 0.01, generator=generator)
        else:
            tensor.normal_(0, 0.02, generator=generator)


class LayerCache:
    """Keys and values of one layer, in memory that stays. A step writes at
    `position` and attends to all up to there."""

    def __init__(self, batch, length, config, device, dtype):
        shape = (batch, config.num_key_value_heads, length, config.head_dim)
        self.keys = torch.empty(shape, device=device, dtype=dtype).normal_()
        self.values = torch.empty(shape, device=device, dtype=dtype).normal_()
        self.position = 0

    def update(self, keys, values, *_, **__):
        """What transformers' attention calls."""
        end = self.position + keys.shape[2]
        self.keys[:, :, self.position : end] = keys
        self.values[:, :, self.position : end] = values
        return self.keys[:, :, :end], self.values[:, :, :end]


def run_layer(layer, next_norm, chain, normed, residual, rope, cache):
    """A decoder layer, from behind its first norm to behind the next one's."""
    attention, _ = layer.self_attn(
        hidden_states=normed,
        position_embeddings=rope,
        attention_mask=None,
        past_key_values=cache,
    )
    normed, residual = chain(attention, residual, layer.post_attention_layernorm)
    return chain(layer.mlp(normed), residual, next_norm)


def run_step(model, caches, tokens, chain, layer_function=run_layer):
    """A rank's share of the logits of the last position: (batch, vocabulary)."""
    inner = model.model
    residual = inner.embed_tokens(tokens)
    start = caches[0].position
    positions = torch.arange(start, start + tokens.shape[1], device=tokens.device)
    rope = inner.rotary_emb(residual, positions[None])
    normed = inner.layers[0].input_layernorm(residual)
    norms = [layer.input_layernorm for layer in inner.layers][1:] + [inner.norm]
    for layer, norm, cache in zip(inner.layers, norms, caches):
        normed, residual = layer_function(
            layer, norm, chain, normed, residual, rope, cache
        )
    return model.lm_head(normed[:, -1])
