"""The tiny model: what llama.cpp calls "llama", with biases on q and k, and the embedding as output, too.

Its parameters have the names that they have in a GGUF. Needs torch, tokenizers, gguf and numpy.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import gguf
import torch
import torch.nn.functional as F
from gguf_writer import write_gguf
from template import SPECIAL, TEMPLATE
from tokenizers import Tokenizer
from torch import Tensor, nn

__all__ = ["Llama", "Shape", "load", "save"]

ROPE_BASE = 10000.0


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How large the model is."""

    vocab: int
    dim: int
    layers: int
    heads: int
    hidden: int
    context: int = 2048


class RMSNorm(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], self.weight, 1e-5)


class Block(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        dim, hidden = shape.dim, shape.hidden
        self.heads = shape.heads
        self.attn_norm, self.ffn_norm = RMSNorm(dim), RMSNorm(dim)
        self.attn_q, self.attn_k = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.attn_v, self.attn_output = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.ffn_gate, self.ffn_up = nn.Linear(dim, hidden, bias=False), nn.Linear(dim, hidden, bias=False)
        self.ffn_down = nn.Linear(hidden, dim, bias=False)
        for parameter in (self.attn_q.bias, self.attn_k.bias, self.attn_output.weight, self.ffn_down.weight):
            nn.init.zeros_(parameter)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, length, dim = x.shape
        h = self.attn_norm(x)
        q, k, v = (
            project(h).view(batch, length, self.heads, -1).transpose(1, 2)
            for project in (self.attn_q, self.attn_k, self.attn_v)
        )
        attended = F.scaled_dot_product_attention(
            _rotated(q.float(), cos, sin), _rotated(k.float(), cos, sin), v.float(), is_causal=True
        )
        x = x + self.attn_output(attended.transpose(1, 2).reshape(batch, length, dim))
        h = self.ffn_norm(x)
        return x + self.ffn_down(F.silu(self.ffn_gate(h)) * self.ffn_up(h))


class Llama(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.token_embd = nn.Embedding(shape.vocab, shape.dim)
        nn.init.normal_(self.token_embd.weight, std=0.05)
        self.blk = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.output_norm = RMSNorm(shape.dim)
        half = shape.dim // shape.heads // 2
        frequencies = ROPE_BASE ** (-torch.arange(half) / half)
        angle = torch.outer(torch.arange(shape.context).float(), frequencies)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)
        self._look_back(half, frequencies)

    @torch.no_grad()
    def _look_back(self, half: int, frequencies: Tensor) -> None:
        """Start two heads of the first layer as "look one (two) tokens back".

        With that the copying circuit (find what followed this token earlier) forms within a few hundred steps.
        """
        first = self.blk[0]
        for head in (0, 1):
            at = head * 2 * half
            for i in range(8):
                first.attn_q.bias[at + 2 * i] = 6.0
                first.attn_k.bias[at + 2 * i] = 6.0 * math.cos((head + 1) * frequencies[i])
                first.attn_k.bias[at + 2 * i + 1] = 6.0 * math.sin((head + 1) * frequencies[i])

    def forward(self, ids: Tensor) -> Tensor:
        x = self.token_embd(ids)
        cos, sin = self.cos[: ids.shape[1]], self.sin[: ids.shape[1]]
        for block in self.blk:
            x = block(x, cos, sin)
        return self.output_norm(x)

    def head(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.token_embd.weight)


def save(model: Llama, tokenizer: Tokenizer, path: str) -> None:
    """Write model, vocabulary and chat template to one GGUF."""
    vocab = tokenizer.get_vocab()
    write_gguf(
        path,
        name="tiny-tools",
        tokens=sorted(vocab, key=vocab.__getitem__),
        merges=[tuple(merge) for merge in json.loads(tokenizer.to_str())["model"]["merges"]],
        special=SPECIAL,
        template=TEMPLATE,
        weights={name: tensor.detach().float().numpy() for name, tensor in model.state_dict().items()},
        dim=model.shape.dim,
        layers=model.shape.layers,
        heads=model.shape.heads,
        hidden=model.shape.hidden,
        context=model.shape.context,
        rope_base=ROPE_BASE,
    )


def load(model: Llama, path: str) -> None:
    """Take the weights of a GGUF that `save` wrote."""
    tensors = gguf.GGUFReader(path).tensors
    model.load_state_dict({tensor.name: torch.tensor(tensor.data).float() for tensor in tensors})


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)
