"""Bytes that a layer keeps for its backward pass, per token (in a vision tower: per patch).

They are sums over the parts of transformers' modules, computed from widths: what autograd saves in
each part in bfloat16, under autocast on a GPU, with flash attention over packed rows, as verl
trains. Parameters are not included. `python -m tools.layer_memory` counts the same bytes with
autograd's hooks; `tests/models/test_layers.py` compares the two for every family and several
widths.
"""

from dataclasses import dataclass
from typing import Any

BFLOAT16 = 2
FLOAT32 = 4
"""Bytes per bfloat16 and float32 number."""
INTEGER = 8
"""Bytes per index."""
CHUNK = 64
"""Tokens that the delta rule processes at a time (`torch_chunk_gated_delta_rule`)."""
DELTA_HEAD = 6651
"""Bytes per head of the delta rule for the chunks' triangles and decays, whatever the widths."""


@dataclass(frozen=True, slots=True)
class LayerBytes:
    """Bytes of one layer per token."""

    kept: int
    """Saved by autograd from the forward to the backward pass."""
    working: int
    """Needed in addition at the peak of the passes: gradients and copies that are freed at once."""


@dataclass(frozen=True, slots=True)
class Attention:
    """The widths of a layer's attention."""

    hidden: int
    heads: int
    key_heads: int
    head: int
    """Width of one head."""

    @classmethod
    def of(cls, config: Any) -> "Attention":
        """Read the widths from a configuration of transformers."""
        heads = config.num_attention_heads
        key_heads = getattr(config, "num_key_value_heads", None) or heads
        head = getattr(config, "head_dim", None) or config.hidden_size // heads
        return cls(config.hidden_size, heads, key_heads, head)

    @property
    def query(self) -> int:
        """Width of all queries."""
        return self.heads * self.head

    @property
    def keys(self) -> int:
        """Width of all keys, and of all values."""
        return self.key_heads * self.head

    @property
    def kept(self) -> int:
        """Bytes kept: normalised input; rotated queries and keys, values, output and its sums;
        angles.
        """
        turned = BFLOAT16 * (self.hidden + 2 * self.query + 2 * self.keys)
        return turned + FLOAT32 * self.heads + 2 * BFLOAT16 * self.head


def rms_norm(width: int, heads: int = 1) -> int:
    """Return what an RMS norm of Qwen and Llama keeps: its input in float32, plain and
    normalised.
    """
    return (FLOAT32 + BFLOAT16) * width + FLOAT32 * heads


def float_norm(width: int, heads: int = 1) -> int:
    """Return what a norm of Gemma and Qwen3.5 keeps, which also scales in float32."""
    return 2 * FLOAT32 * width + FLOAT32 * heads


def layer_norm(width: int) -> int:
    """Return what a layer norm keeps: its input in float32, the mean and the deviation."""
    return FLOAT32 * width + 2 * FLOAT32


def gated_mlp(hidden: int, inner: int) -> int:
    """Return what a gated MLP keeps: its input, the gate, the activated gate, the value and
    product.
    """
    return BFLOAT16 * hidden + 4 * BFLOAT16 * inner


def plain_mlp(hidden: int, inner: int) -> int:
    """Return what an MLP without a gate keeps: its input, and inner states around the
    activation.
    """
    return BFLOAT16 * hidden + 2 * BFLOAT16 * inner


def mlp_working(hidden: int, inner: int, *, gated: bool = True) -> int:
    """Return what the backward pass of an MLP adds: gradients of inner states, input and output."""
    return 2 * BFLOAT16 * hidden + (2 if gated else 1) * BFLOAT16 * inner


def experts(hidden: int, inner: int, number: int, chosen: int) -> LayerBytes:
    """Return the bytes of experts (`transformers.integrations.moe.grouped_mm_experts_forward`).

    Each token is kept once for every expert that it is routed to: its input, its inner states and
    its output. The router keeps its probabilities in float32, and the indices that order the
    copies.
    """
    copies = 2 * BFLOAT16 * chosen * hidden + 4 * BFLOAT16 * chosen * inner
    router = FLOAT32 * number + (4 * INTEGER + FLOAT32 + BFLOAT16 + 1) * chosen + FLOAT32
    working = 3 * BFLOAT16 * (chosen + 1) * hidden + BFLOAT16 * number + 2 * INTEGER * chosen
    return LayerBytes(BFLOAT16 * hidden + copies + router, working)


def delta_net(hidden: int, key_heads: int, heads: int, key: int, value: int) -> int:
    """Return what a gated delta net keeps if torch computes it (`torch_chunk_gated_delta_rule`).

    `key` and `value` are the widths of one head. Keys and queries are repeated for all heads, in
    float32. Each chunk of 64 tokens has, for each head, a state of key x value numbers and
    triangles of 64 x 64. The multiples were counted with autograd's hooks. The kernels of
    flash-linear-attention recompute the chunks and keep less.
    """
    mixed = 4 * BFLOAT16 * key_heads * key + 2 * BFLOAT16 * heads * value
    if heads == key_heads:  # the convolution's output is kept if it is not repeated
        mixed += BFLOAT16 * key_heads * key
    repeated = 32 * heads * key + 26 * heads * value
    states = 2 * FLOAT32 * heads * key * value // CHUNK
    return BFLOAT16 * hidden + mixed + repeated + states + DELTA_HEAD * heads


def delta_working(hidden: int, heads: int, key: int, value: int) -> int:
    """Return what the backward pass of a delta net adds: copies of the values, or of wider keys."""
    widest = 14 * key if key > value else 12 * value
    return heads * widest + 3 * BFLOAT16 * hidden


def attending(attention: Attention) -> int:
    """Return what the norm and the attention of Llama and Qwen2.5 keep."""
    return rms_norm(attention.hidden) + attention.kept


def attending_with_head_norms(attention: Attention) -> int:
    """Return what the norm and the attention of Qwen3 keep, which also normalises queries and
    keys.
    """
    norms = rms_norm(attention.query, attention.heads) + rms_norm(
        attention.keys, attention.key_heads
    )
    return attending(attention) + norms


def plain_layer(config: Any, number: int) -> LayerBytes:
    """Return a layer of Llama and Qwen2.5: two norms, attention, a gated MLP."""
    kept = attending(Attention.of(config)) + rms_norm(config.hidden_size)
    return _with_gated_mlp(kept, config)


def qwen3_layer(config: Any, number: int) -> LayerBytes:
    """Return a layer of Qwen3 and Qwen3-VL."""
    kept = attending_with_head_norms(Attention.of(config)) + rms_norm(config.hidden_size)
    return _with_gated_mlp(kept, config)


def _with_gated_mlp(kept: int, config: Any) -> LayerBytes:
    hidden = config.hidden_size
    inner = config.intermediate_size
    return LayerBytes(kept + gated_mlp(hidden, inner), mlp_working(hidden, inner))
