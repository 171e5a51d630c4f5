"""Check memory and time of Qwen2.5-VL-7B's layers at the recipes' shortest and longest rows.

A few layers are measured and extrapolated to all 28. The measurement is the forward and backward
pass of one row in verl's FSDP2 engine, with the settings of recipes and without an optimizer step.
Memory is the peak minus the weights, and gradients are dropped as soon as they exist, since a run
shards both. The vision tower's backward pass comes last and does not grow with the layers of the
language model, so its peak is measured separately; the larger of the two peaks counts. On a GPU,
neither may exceed the budget's estimate. Three fifths of a row are pages of 1,280 visual tokens.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from verl.workers.engine_workers import TrainingWorker

from docagent_rl.checks.passes import (
    BFLOAT16,
    Model,
    busy_vision,
    kept_states,
    logits,
    pass_bytes,
    waiting_vision,
)
from docagent_rl.checks.rates import RateName
from docagent_rl.checks.step_time import StepSizes, forward
from tools.gpu_check.batches import Row, make_batch
from tools.gpu_check.check import Machine, Result, expect, passed
from tools.gpu_check.meter import Cost, Meter
from tools.gpu_check.models import SEVEN, SMALL, configuration, write_checkpoint
from tools.gpu_check.parts.models import settings_of_recipes
from tools.gpu_check.workers import make_worker, train_without_step

OF_THIS_MODEL = "_qwen2_5_vl_7b"
"""The end of the names of the model's recipes."""
VISUAL = 0.6
"""Share of a row that consists of pages."""
PASSES = 4
"""Forward passes that a row's passes cost with checkpointing: a backward pass costs two."""
PAGE = (64, 80)
UNIT = 28
"""The size of a page in patches (`PAGE`), and the side of a visual token in pixels (`UNIT`)."""


@dataclass(frozen=True)
class Scale:
    """The sizes of a measurement.

    Attributes:
        sizes: the sizes of the model.
        layers: the numbers of layers in the two runs.
        all_layers: the number of layers to which they are extrapolated.
        rows: the lengths of the rows, in tokens.
        page: the height and width of a page, in patches.
    """

    sizes: dict
    layers: tuple[int, int]
    all_layers: int
    rows: tuple[int, ...]
    page: tuple[int, int]


def run(machine: Machine, folder: Path) -> Result:
    """Run the check that the module describes."""
    rows = recipe_rows()
    if machine.gpu is None:
        scale = Scale(SMALL, (1, 2), 8, (120,), (4, 4))
    else:
        shown = tuple(sorted({min(rows.values()), max(rows.values())}))
        scale = Scale(SEVEN, (2, 4), SEVEN["layers"], shown, PAGE)
    few, many = scale.layers
    costs = {layers: _costs(machine, folder, scale, layers) for layers in scale.layers}
    found: dict[int, Cost] = {}
    for row in scale.rows:
        expect(costs[few][row] is not None, f"{few} layers do not fit at {row} tokens")
        if costs[many][row] is not None:
            found[row] = extrapolated(
                costs[few][row], costs[many][row], scale.layers, scale.all_layers
            )
            if machine.gpu is not None:
                check_estimate(row, found[row], estimated_mib(seven_billion(), row))
    expect(bool(found), f"{many} layers do not fit with any row")
    numbers: dict[str, Any] = {
        "layers": scale.all_layers,
        "extrapolated": {str(row): cost.as_dict() for row, cost in found.items()},
        "measured": {
            f"{layers} layers, {row} tokens": None if cost is None else cost.as_dict()
            for layers, by_row in costs.items()
            for row, cost in by_row.items()
        },
        "recipes": rows,
    }
    longest = max(found)
    cost = f"activations {found[longest]} for forward and backward"
    text = f"{scale.all_layers} layers at {longest} tokens: {cost} (from {few} and {many} layers)"
    return passed(text, rates=measured_rate(scale, longest, found[longest]), **numbers)


def measured_rate(scale: Scale, tokens: int, cost: Cost) -> dict[RateName, float]:
    """Return the operations per second of a row's passes with all layers, as the formula counts
    them; nothing if times on a busy CPU do not grow with the layers.
    """
    from docagent_rl.checks.model_sizes import sizes_of
    from docagent_rl.training.settings.models import on_meta

    row = _row(tokens, scale.page)
    model = sizes_of(on_meta(configuration(scale.sizes, layers=scale.all_layers)))
    sizes = StepSizes(row.tokens, row.images * row.image_tokens, sampled=0)
    # forward, forward again because of checkpointing, and backward
    operations = PASSES * row.tokens * forward(model, sizes)
    return {RateName.TRAINING: operations / cost.seconds} if cost.seconds > 0 else {}


def extrapolated(few: Cost | None, many: Cost | None, layers: tuple[int, int], wanted: int) -> Cost:
    """Return memory and time of `wanted` layers, on the line through two measurements.

    The second peak, that of the vision tower, is not extrapolated.

    Raises:
        ValueError: one of them is missing.
    """
    if few is None or many is None:
        raise ValueError("both measurements are needed")
    steps = (wanted - layers[1]) / (layers[1] - layers[0])
    return Cost(
        many.peak_mib + steps * (many.peak_mib - few.peak_mib),
        many.seconds + steps * (many.seconds - few.seconds),
        max(few.later_mib, many.later_mib),
    )


def seven_billion() -> Model:
    """Return the sizes that the budget uses."""
    from docagent_rl.checks.model_sizes import sizes_of
    from docagent_rl.training.settings.models import known_model

    model = known_model("Qwen/Qwen2.5-VL-7B-Instruct")
    assert model is not None
    return sizes_of(model)


def estimated_mib(model: Model, tokens: int) -> tuple[float, float]:
    """Return the budget's estimates for a row's pass before and while the gradient is in the tower.

    The first has the states of all layers, the logits, and the states that wait in the vision
    tower; the second has only the tower. Both include features, and embeddings and head, which the
    engine gathers.
    """
    row = _row(tokens, PAGE)
    visual = row.images * row.image_tokens
    always = pass_bytes(visual, UNIT) + BFLOAT16 * (model.embeddings + model.head)
    waiting = waiting_vision(model, visual, checkpointing=True)
    states = kept_states(model, row.tokens, checkpointing=True) + logits(
        model, row.tokens, fused=True
    )
    busy = busy_vision(model, visual, checkpointing=True)
    return (always + waiting + states) / 2**20, (always + waiting + busy) / 2**20


def check_estimate(tokens: int, cost: Cost, estimates_mib: tuple[float, float]) -> None:
    """Check that the budget's estimates cover what a row uses, in the language model and the tower.

    Raises:
        CheckError: an estimate is too small.
    """
    peaks = {"before the tower": cost.peak_mib, "in the tower": cost.later_mib}
    for (where, peak), estimate in zip(peaks.items(), estimates_mib, strict=True):
        text = (
            f"{tokens} tokens take {peak / 1024:.1f} GiB {where}; the budget says "
            f"{estimate / 1024:.1f}"
        )
        expect(peak <= estimate, text)


def recipe_rows() -> dict[str, int]:
    """Return the longest row of each recipe for this model, in tokens."""
    from docagent_rl.checks.recipe_check import composed_recipe
    from docagent_rl.checks.recipe_list import recipe_names

    names = [name for name in recipe_names() if name.endswith(OF_THIS_MODEL)]
    return {
        name: int(composed_recipe(name).actor_rollout_ref.rollout.max_model_len) for name in names
    }


def _costs(machine: Machine, folder: Path, scale: Scale, layers: int) -> dict[int, Cost | None]:
    """Return memory and time by row; None for a row that does not fit into the GPU's memory."""
    config = configuration(scale.sizes, layers=layers)
    path = write_checkpoint(folder / f"layers-{layers}", config, device=machine.device)
    settings = replace(settings_of_recipes(machine), tokens=max(scale.rows))
    made = make_worker(path, settings)
    found = {
        row: _cost(machine, made, make_batch([_row(row, scale.page)], config), row)
        for row in scale.rows
    }
    del made
    gc.collect()
    if machine.gpu is not None:
        torch.cuda.empty_cache()
    return found


def _cost(machine: Machine, made: TrainingWorker, batch: Any, row: int) -> Cost | None:
    meter = Meter(machine.device)
    try:
        with _watched(made, meter):
            return meter.measure(lambda: train_without_step(made, batch))
    except torch.cuda.OutOfMemoryError:
        print(f"{row} tokens do not fit")
        return None


@contextmanager
def _watched(made: TrainingWorker, meter: Meter) -> Iterator[None]:
    """Mark the meter when the gradient reaches the vision tower, and drop parameters' gradients."""
    module = made.engine.module

    def mark(gradient: torch.Tensor) -> None:
        meter.mark()

    def watch(merger: Any, inputs: Any, output: torch.Tensor) -> None:
        if output.requires_grad:
            output.register_hook(mark)

    hooks = [module.model.visual.merger.register_forward_hook(watch)]
    hooks += [
        p.register_post_accumulate_grad_hook(_drop) for p in module.parameters() if p.requires_grad
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _drop(parameter: torch.Tensor) -> None:
    parameter.grad = None


def _row(tokens: int, page: tuple[int, int]) -> Row:
    one = page[0] * page[1] // 4 + 2
    images = int(VISUAL * tokens / one)
    prompt = tokens // 20
    return Row(prompt, tokens - prompt - images * one, images, page)
