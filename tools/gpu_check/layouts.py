"""Compare the layouts of rows in verl's workers with transformers on one row at a time, in float32.

Recipes for GPUs pack rows without padding, fuse log-probs and fill micro-batches by tokens. A tiny
model does the same on the CPU, where torch computes attention for the rows of a pack one by one. In
float32, the comparison shows errors such as a row that sees another row, positions of another row,
or a missing image, whatever the family.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from tensordict import TensorDict
from torch import Tensor
from torch.nn.functional import cosine_similarity

from docagent_rl.lab.tiny.model import build_tiny_model
from tools.gpu_check.attention import FLASH
from tools.gpu_check.reference import Reference, reference
from tools.gpu_check.rows import TEMPERATURE, as_batch, make_rows
from tools.gpu_check.workers import VALUE, Settings, infer, make_worker, update

FUSED = "torch"
"""verl's default backend of fused log-probs."""
TOWER = ("visual.", "vision_tower.", "embed_vision.", "multi_modal_projector.")
"""Parts of parameter names that belong to a vision tower and its projector."""
DYNAMIC = "dynamic micro-batches"
"""The layout of recipes: packed, fused if the family supports it, with gradient checkpointing."""
ROWS = 4
"""Rows in a batch (`rows.LENGTHS`)."""
LOG_PROBS = 1e-4
"""Maximum difference of the log-prob of any token, in nats."""
COSINE = 0.99999
"""Minimum cosine of the gradients, for the tower and for the language model."""
UNSEEN = 1e-3
"""Maximum change, in nats, of a log-prob when no token on which it depends changes; a pack is
computed in a fixed order.
"""
NORM = 1e-3
"""Maximum relative difference of the norm of a gradient."""
WINDOW = {"gemma3": ["sliding_attention", "full_attention"], "gemma4": None}
"""Families with sliding windows, with the kinds of layers if those of the tiny model differ."""
WINDOW_TOKENS = 24
"""Length of a sliding window, shorter than the rows."""


@dataclass(frozen=True)
class SmallFamily:
    """A small model on disk, with a batch for it.

    Attributes:
        path: the folder of the model.
        batch: the batch of all rows.
        exact: the results of transformers for the rows.
        other: the same batch, but with a different first row of the same lengths.
    """

    path: Path
    batch: TensorDict
    exact: Reference
    other: TensorDict

    @property
    def lengths(self) -> list[int]:
        """The number of tokens of each row."""
        return self.batch["input_ids"].offsets().diff().tolist()

    @property
    def sampled(self) -> list[int]:
        """The number of sampled tokens of each row."""
        return [int(mask.sum()) for mask in self.batch["response_mask"].unbind()]


@dataclass(frozen=True)
class Agreement:
    """The differences between a worker and transformers.

    Attributes:
        rows: the largest difference of a log-prob in each row, in nats.
        cosines: the cosines between the gradients, by part of the model.
        norms: the norms of the worker's gradients relative to the reference's, by part of the
            model.
    """

    rows: list[float]
    cosines: dict[str, float]
    norms: dict[str, float]

    def problems(self) -> list[str]:
        """Return the differences that are larger than float32 can explain."""
        found = [
            f"row {number}: a log-prob differs by {apart:.2g} nats, more than {LOG_PROBS:g}"
            for number, apart in enumerate(self.rows, start=1)
            if not apart <= LOG_PROBS
        ]
        for part, cosine in self.cosines.items():
            if not cosine >= COSINE:
                found.append(f"{part}: the cosine of the gradients is {cosine:.6f}, below {COSINE}")
        for part, norm in self.norms.items():
            if not abs(norm - 1) <= NORM:
                found.append(f"{part}: the norm of the gradient is {norm:.5f} of the expected one")
        return found


def layouts(tokens: int, *, fused: bool) -> dict[str, Settings]:
    """Return the layouts in the order in which one process computes them: padded ones first.

    Args:
        tokens: the number of tokens of a dynamic micro-batch.
        fused: whether the family's log-probs can be fused.
    """
    packed = {"lr": 0.0, "remove_padding": True, "attention": FLASH}
    found = {
        "padded": Settings(lr=0.0, rows=ROWS),
        "packed, one row a pack": Settings(**packed),
        "packed together": Settings(**packed, rows=ROWS),
    }
    if fused:
        found["packed together, fused"] = Settings(**packed, rows=ROWS, fused=FUSED)
    backend = FUSED if fused else None
    found[DYNAMIC] = Settings(**packed, tokens=tokens, fused=backend, checkpointing=True)
    return found


def small_family(name: str, device: str, folder: Path) -> SmallFamily:
    """Create a family's tiny model and its rows, and compute them with transformers."""
    from verl.utils import hf_processor, hf_tokenizer

    path = build_tiny_model(folder / name, family=name)
    if name in WINDOW:
        _shorten_window(path / "config.json", WINDOW[name])
    processor = hf_processor(str(path)) or hf_tokenizer(str(path))
    rows = make_rows(processor)
    exact = reference(path, rows, processor, TEMPERATURE, device)
    others = [make_rows(processor, seed=1)[0], *rows[1:]]
    return SmallFamily(path, as_batch(rows, processor), exact, as_batch(others, processor))


def _shorten_window(file: Path, layers: list[str] | None) -> None:
    config = json.loads(file.read_text(encoding="utf-8"))
    text = config.get("text_config", config)
    text["sliding_window"] = WINDOW_TOKENS
    if layers is not None:
        text["layer_types"] = layers
    file.write_text(json.dumps(config), encoding="utf-8")


def measure(family: SmallFamily, settings: Settings) -> Agreement:
    """Compare log-probs and gradients of a worker with those of transformers."""
    worker = make_worker(family.path, settings)
    apart = (infer(worker, family.batch).double() - family.exact.log_probs).abs()
    rows = [float(row.max()) for row in apart.split(family.sampled)]
    _, _, gradients = update(worker, family.batch)
    pairs = by_part(gradients, family.exact.gradients)
    cosines = {part: float(cosine_similarity(*pair, dim=0)) for part, pair in pairs.items()}
    norms = {part: float(found.norm() / wanted.norm()) for part, (found, wanted) in pairs.items()}
    return Agreement(rows, cosines, norms)


def changes_of_others(family: SmallFamily, settings: Settings) -> list[float]:
    """Return by how many nats the log-probs of each other row change with the first row of a pack.

    All sizes in the pack stay the same, so a row that does not see the first one must not change,
    in bfloat16 as little as in float32.
    """
    worker = make_worker(family.path, replace(settings, tokens=sum(family.lengths)))
    apart = (infer(worker, family.batch) - infer(worker, family.other)).abs()
    return [float(row.max()) for row in apart.split(family.sampled)[1:]]


def values_apart(family: SmallFamily, settings: Settings, exact: Tensor) -> list[float]:
    """Return the largest difference of a critic's values from `exact` (single rows), by row."""
    apart = (infer(make_worker(family.path, settings, VALUE), family.batch).double() - exact).abs()
    return [float(row.max()) for row in apart.split(family.sampled)]


def by_part(
    found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]
) -> dict[str, tuple[Tensor, Tensor]]:
    """Return both sides' gradients of the tower and of the language model, (n,) float64 each.

    They are separate because a wrong gradient of the tower would not show among the many parameters
    of the language model.

    Raises:
        ValueError: one side has a gradient that the other one lacks.
    """
    # one side may have zero gradients for a parameter that the other leaves out
    there = [{name for name, each in side.items() if each.any()} for side in (found, wanted)]
    if there[0] != there[1]:
        raise ValueError(f"gradients of {sorted(there[0] ^ there[1])} on one side only")
    parts: dict[str, list[str]] = {}
    for name in sorted(there[1]):
        part = "tower" if any(mark in name for mark in TOWER) else "language model"
        parts.setdefault(part, []).append(name)
    return {
        part: (
            torch.cat([found[name].flatten().double() for name in names]),
            torch.cat([wanted[name].flatten().double() for name in names]),
        )
        for part, names in parts.items()
    }
