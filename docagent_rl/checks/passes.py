"""The memory of a model's forward and backward pass over a pack of rows, on one GPU.

Pure: sizes in, bytes out. What layers keep is counted by `docagent_rl/models/layers.py`, family by
family, and held to autograd's own count by tests.
"""

from dataclasses import dataclass
from fractions import Fraction

from docagent_rl.models.layers import BFLOAT16, FLOAT32, LayerBytes

FUSED_TOKENS = 512
"""Positions whose logits verl's fused kernels hold at a time (`FusedLinearForPPO.chunk_size`)."""
CHANNELS = 3
FRAMES = 2
"""An image's channels, and its frames: the encoder takes two of a video at a time, and both are the
page.
"""
VISUAL_SHARE = Fraction(3, 5)
"""Share of a full pack that is visual tokens, where rows show images: chosen, for a pack of rows
that show all their images between short turns.
"""


@dataclass(frozen=True, slots=True)
class Tower:
    """The sizes of a vision tower."""

    layers: int
    hidden: int
    block: LayerBytes
    """Bytes of a layer, for each patch."""
    outside: int
    """Bytes that are kept of a patch outside the layers, which are not computed again."""
    patches: int
    """Patches of a visual token."""
    outputs: int = 1
    """States of a visual token that the language model takes: one, and those of inner layers, if
    any.
    """


@dataclass(frozen=True, slots=True)
class Model:
    """The sizes of a language model, with its tower: parameters, and widths."""

    parameters: int
    vision: int
    """Parameters of the vision tower."""
    head: int
    """Parameters of the output head, 0 where it shares the embeddings'."""
    embeddings: int
    """Parameters of the input embeddings."""
    hidden: int
    kv: int
    """Width of keys, and of values."""
    vocabulary: int
    states: tuple[LayerBytes, ...]
    """Bytes of each layer of the language model, for each token."""
    linear_layers: int = 0
    """Layers of linear attention, which keep a state of fixed size in place of keys and values."""
    tower: Tower | None = None

    @property
    def layers(self) -> int:
        """Layers of the language model."""
        return len(self.states)

    @property
    def layer(self) -> int:
        """Parameters of one layer of the language model."""
        return (self.parameters - self.vision - self.head - self.embeddings) // self.layers


def kept_states(model: Model, tokens: int, *, checkpointing: bool) -> int:
    """Return the bytes that a language model's passes over packed tokens take.

    With checkpointing the input of each layer, bfloat16, and all of the largest layer at its
    busiest moment; otherwise what all layers keep, and what the busiest holds on top. Then the last
    norm, in float32, and the states before and behind it.
    """
    last = (3 * BFLOAT16 + FLOAT32) * model.hidden
    if checkpointing:
        inputs = BFLOAT16 * model.hidden * model.layers
        return tokens * (last + inputs + max(layer.kept + layer.working for layer in model.states))
    kept = sum(layer.kept for layer in model.states)
    return tokens * (last + kept + max(layer.working for layer in model.states))


def waiting_vision(model: Model, tokens: int, *, checkpointing: bool) -> int:
    """Return what a trained vision tower keeps of `tokens` visual tokens while the language model
    works.

    With checkpointing the input of each layer; otherwise all that layers keep.
    """
    tower = model.tower
    if tower is None:
        return 0
    layer = BFLOAT16 * tower.hidden if checkpointing else tower.block.kept
    return tokens * tower.patches * (tower.outside + layer * tower.layers)


def busy_vision(model: Model, tokens: int, *, checkpointing: bool) -> int:
    """Return what one layer of a trained tower takes on top, in its own backward pass."""
    tower = model.tower
    if tower is None:
        return 0
    again = tower.block.kept if checkpointing else 0
    return tokens * tower.patches * (again + tower.block.working)


def kept_vision(model: Model, tokens: int, states: int, *, checkpointing: bool) -> int:
    """Return the bytes that a trained tower adds to the `states` of the language model.

    Its backward pass begins when the language model's is over and those are freed: what its busiest
    layer takes counts where it is larger than them.
    """
    busy = busy_vision(model, tokens, checkpointing=checkpointing)
    return waiting_vision(model, tokens, checkpointing=checkpointing) + max(busy - states, 0)


def frozen_vision(model: Model, tokens: int, states: int) -> int:
    """Return the bytes that a frozen tower adds to the `states` of the language model.

    Its pass is over before layers of the language model keep anything, so that its output alone
    stays; one layer's memory counts where it is larger than all that.
    """
    tower = model.tower
    if tower is None:
        return 0
    output = tokens * tower.outputs * BFLOAT16 * model.hidden
    return max(output, tokens * tower.patches * tower.block.kept - states)


def packed_images(row: int, tokens: int) -> int:
    """Return the visual tokens that a pack of `tokens` tokens may hold, where a row shows `row` at
    most.

    A pack holds one row with all its images, or several short rows that are mostly images.
    """
    return max(min(row, tokens), int(VISUAL_SHARE * tokens)) if row else 0


def logits(model: Model, tokens: int, *, fused: bool) -> int:
    """Estimate logits and what is made of them, with the head's gradient, bytes.

    A logit is held in bfloat16 and five times in float32 where verl fuses the kernels
    (probabilities, one-hot labels, gradients), for 512 positions at a time; else in bfloat16 with
    its gradient and twice in float32, for all positions.
    """
    head = BFLOAT16 * model.vocabulary * model.hidden
    if fused:
        return min(tokens, FUSED_TOKENS) * model.vocabulary * (BFLOAT16 + 5 * FLOAT32) + head
    return tokens * model.vocabulary * (2 * BFLOAT16 + 2 * FLOAT32) + head


def patches(image_tokens: int, unit: int) -> int:
    """Return the bytes of a row's images as they travel: a byte a value of one frame.

    A token is a square of `unit` pixels.
    """
    return image_tokens * CHANNELS * unit**2


def pass_bytes(image_tokens: int, unit: int) -> int:
    """Return the bytes that a pass makes of them, float32, both frames."""
    return patches(image_tokens, unit) * FRAMES * FLOAT32
