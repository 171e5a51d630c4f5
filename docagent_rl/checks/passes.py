"""The memory of a model's forward and backward pass over a pack of rows, on one GPU.

These are pure functions from sizes to bytes. `docagent_rl/models/layers.py` counts what the layers
of each family keep, and tests compare that with autograd's own count.
"""

from dataclasses import dataclass
from fractions import Fraction

from docagent_rl.models.layers import BFLOAT16, FLOAT32, LayerBytes

FUSED_TOKENS = 512
"""Positions whose logits verl's fused kernels compute at a time
(`FusedLinearForPPO.chunk_size`).
"""
CHANNELS = 3
FRAMES = 2
"""An image's channels and frames: the encoder takes two video frames at a time, and both are the
page.
"""
VISUAL_SHARE = Fraction(3, 5)
"""The share of visual tokens in a full pack if rows contain images. It was chosen for rows that
show all their images between short turns.
"""


@dataclass(frozen=True, slots=True)
class Tower:
    """The sizes of a vision tower."""

    layers: int
    hidden: int
    block: LayerBytes
    """Bytes of a layer per patch."""
    outside: int
    """Bytes per patch that are kept outside the layers; these parts are not checkpointed."""
    patches: int
    """Patches per visual token."""
    outputs: int = 1
    """States per visual token that the language model receives: the last one, and those of inner
    layers if the model uses them.
    """


@dataclass(frozen=True, slots=True)
class Model:
    """The sizes of a language model and its vision tower: numbers of parameters, and widths."""

    parameters: int
    vision: int
    """Parameters of the vision tower."""
    head: int
    """Parameters of the output head; 0 if it is tied to the embeddings."""
    embeddings: int
    """Parameters of the input embeddings."""
    hidden: int
    kv: int
    """Width of the keys, and of the values."""
    vocabulary: int
    states: tuple[LayerBytes, ...]
    """Bytes per token of each layer of the language model."""
    key_heads: int = 1
    """Number of key heads of a layer, which the GPUs of a server share."""
    linear_layers: int = 0
    """Layers with linear attention, which have a state of fixed size instead of keys and values."""
    tower: Tower | None = None

    @property
    def layers(self) -> int:
        """The number of layers of the language model."""
        return len(self.states)

    @property
    def layer(self) -> int:
        """Parameters of one layer of the language model."""
        return (self.parameters - self.vision - self.head - self.embeddings) // self.layers


def kept_states(model: Model, tokens: int, *, checkpointing: bool) -> int:
    """Return the bytes that a language model needs for its passes over packed tokens.

    With checkpointing: the bfloat16 input of each layer, and the peak of the largest layer.
    Otherwise: what all layers keep, and the largest additional peak of a layer. In both cases also
    the last norm, in float32, and the states before and after it.
    """
    last = (3 * BFLOAT16 + FLOAT32) * model.hidden
    if checkpointing:
        inputs = BFLOAT16 * model.hidden * model.layers
        return tokens * (last + inputs + max(layer.kept + layer.working for layer in model.states))
    kept = sum(layer.kept for layer in model.states)
    return tokens * (last + kept + max(layer.working for layer in model.states))


def waiting_vision(model: Model, tokens: int, *, checkpointing: bool) -> int:
    """Return the bytes that a trained vision tower keeps for `tokens` visual tokens while the
    language model runs.

    With checkpointing it is the input of each layer, otherwise all that the layers keep.
    """
    tower = model.tower
    if tower is None:
        return 0
    layer = BFLOAT16 * tower.hidden if checkpointing else tower.block.kept
    return tokens * tower.patches * (tower.outside + layer * tower.layers)


def busy_vision(model: Model, tokens: int, *, checkpointing: bool) -> int:
    """Return the additional bytes of one layer of a trained tower in its backward pass."""
    tower = model.tower
    if tower is None:
        return 0
    again = tower.block.kept if checkpointing else 0
    return tokens * tower.patches * (again + tower.block.working)


def kept_vision(model: Model, tokens: int, states: int, *, checkpointing: bool) -> int:
    """Return the bytes that a trained tower adds to the `states` of the language model.

    The tower's backward pass begins after the language model's, when those states have been freed:
    its largest layer only counts as far as it exceeds them.
    """
    busy = busy_vision(model, tokens, checkpointing=checkpointing)
    return waiting_vision(model, tokens, checkpointing=checkpointing) + max(busy - states, 0)


def frozen_vision(model: Model, tokens: int, states: int) -> int:
    """Return the bytes that a frozen tower adds to the `states` of the language model.

    Its pass is over before the layers of the language model keep anything, so that only its output
    remains; the memory of one layer counts if it is larger than output and states together.
    """
    tower = model.tower
    if tower is None:
        return 0
    output = tokens * tower.outputs * BFLOAT16 * model.hidden
    return max(output, tokens * tower.patches * tower.block.kept - states)


def packed_images(row: int, tokens: int) -> int:
    """Return the visual tokens in a pack of `tokens` tokens if a row has at most `row` of them.

    A pack contains one row with all its images, or several short rows that are mostly images.
    """
    return max(min(row, tokens), int(VISUAL_SHARE * tokens)) if row else 0


def logits(model: Model, tokens: int, *, fused: bool) -> int:
    """Estimate the bytes of logits, of what is computed from them, and of the head's gradient.

    With verl's fused kernels a logit exists in bfloat16 and five times in float32 (probabilities,
    one-hot labels, gradients), for 512 positions at a time. Otherwise it exists in bfloat16 with
    its gradient, and twice in float32, for all positions.
    """
    head = BFLOAT16 * model.vocabulary * model.hidden
    if fused:
        return min(tokens, FUSED_TOKENS) * model.vocabulary * (BFLOAT16 + 5 * FLOAT32) + head
    return tokens * model.vocabulary * (2 * BFLOAT16 + 2 * FLOAT32) + head


def patches(image_tokens: int, unit: int) -> int:
    """Return the bytes of a row's images in transfer: one byte per value of one frame.

    A token is a square that is `unit` pixels wide.
    """
    return image_tokens * CHANNELS * unit**2


def pass_bytes(image_tokens: int, unit: int) -> int:
    """Return the bytes of a row's images in a pass: float32, both frames."""
    return patches(image_tokens, unit) * FRAMES * FLOAT32
