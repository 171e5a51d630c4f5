"""The line of a step and the table of a validation, from verl's numbers and ours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from rich.table import Table

from docagent_rl.rollout.evidence import STAGES, Stage

Numbers = Mapping[str, float]

_REWARD = ("docagent/reward/total", "critic/score/mean")
_RIGHT = "docagent/outcome/accuracy_of_judged"
_KL = ("actor/kl_generated", "actor/kl_loss", "actor/reward_kl_penalty", "actor/ppo_kl")
"""The divergence from the reference in loss or reward; otherwise from the last policy."""
_APART = "rollout_corr/kl"
_TOKENS = "perf/total_num_tokens"
_TURNS = ("docagent/turns", "num_turns/mean")
_VALIDATION = "val-aux/docagent/"
_CORE = "val-core/"
_LOSS = "val/loss"


def is_validation(numbers: Numbers) -> bool:
    """Return whether these include the numbers of a validation."""
    return any(name.startswith((_CORE, _VALIDATION)) or name == _LOSS for name in numbers)


def is_step(numbers: Numbers) -> bool:
    """Return whether these include the numbers of a training step."""
    return "training/global_step" in numbers or "train/loss" in numbers


def step_line(step: int, total: int | None, numbers: Numbers, left_s: float | None = None) -> str:
    """Return the line of a step: its main numbers, as far as they are available.

    Args:
        step: its number.
        total: the number of steps of the run; `None` if it is unknown.
        numbers: all numbers of the step, by verl's and our names.
        left_s: estimated seconds until the run ends; `None` if unknown, or after the last step.
    """
    parts = [f"step {step}" if total is None else f"step {step}/{total}"]
    parts += _of_fine_tuning(numbers) if "train/loss" in numbers else _of_trajectories(numbers)
    parts += _speed(numbers)
    if left_s is not None:
        parts.append(f"{duration(left_s)} left")
    return "  ".join(parts)


def _of_trajectories(numbers: Numbers) -> Iterator[str]:
    if (reward := _first(numbers, _REWARD)) is not None:
        yield f"reward {reward:.3f}"
    if (right := _finite(numbers, _RIGHT)) is not None:
        yield f"right {right:.0%}"
    if lost := weakest_stage(numbers):
        yield lost
    if (turns := _first(numbers, _TURNS)) is not None:
        yield f"turns {turns:.1f}"
    if (asked := _finite(numbers, "docagent/trajectories/asked")) is not None:
        yield f"masked {numbers.get('docagent/trajectories/masked', 0):.0f}/{asked:.0f}"
    if (divergence := _first(numbers, _KL)) is not None:
        yield f"KL {_small(divergence)}"
    if (apart := _finite(numbers, _APART)) is not None:
        yield f"server-trainer {_small(apart)}"


def _of_fine_tuning(numbers: Numbers) -> Iterator[str]:
    yield f"loss {numbers['train/loss']:.4f}"
    if (norm := _finite(numbers, "train/grad_norm")) is not None:
        yield f"gradient {norm:.3g}"
    if (rate := _finite(numbers, "train/lr")) is not None:
        yield f"lr {rate:.2e}"
    if (tokens := _finite(numbers, "train/global_tokens")) is not None:
        yield f"{tokens:,.0f} tokens"


def _speed(numbers: Numbers) -> Iterator[str]:
    seconds = _first(numbers, ("timing_s/step", "perf/time_per_step"))
    if seconds is None or seconds <= 0:
        return
    if (tokens := _finite(numbers, _TOKENS)) is not None:
        yield f"{tokens / seconds:,.0f} tokens/s"
    yield f"{seconds:.1f} s"


def weakest_stage(numbers: Numbers, prefix: str = "docagent/funnel/") -> str | None:
    """Describe the stage of the evidence funnel at which most trajectories are lost; `None` if
    the evidence is unknown, or no trajectory is lost.
    """
    shares = [(Stage.ALL.value, 1.0)] + [
        (stage.value, share)
        for stage in STAGES
        if (share := _finite(numbers, f"{prefix}{stage.value}")) is not None
    ]
    drops = [
        (before - share, name, before, share) for (_, before), (name, share) in pairwise(shares)
    ]
    if not drops:
        return None
    drop, name, before, share = max(drops, key=lambda each: each[0])
    return f"most lost at {name} ({before:.0%} to {share:.0%})" if drop > 0 else None


_TABLE = (
    ("right", "outcome/accuracy_of_judged", ".0%"),
    ("evidence found", f"funnel/{Stage.FOUND.value}", ".0%"),
    ("evidence looked at", f"funnel/{Stage.LOOKED.value}", ".0%"),
    ("invalid actions", "invalid_action_rate", ".0%"),
    ("turns", "turns", ".1f"),
    ("masked", "masked_trajectories", ".0f"),
)
"""Rows of a validation's table: label, name of our number, format."""


def validation_rows(numbers: Numbers) -> Iterator[tuple[str, float, str]]:
    """Yield the rows of a validation's table: label, number and format."""
    if (loss := _finite(numbers, _LOSS)) is not None:
        yield "loss", loss, ".4f"
    for name in sorted(numbers):
        if name.startswith(_CORE):
            yield name.removeprefix(_CORE).replace("/mean@1", ""), numbers[name], ".3f"
    for name, key, form in _TABLE:
        if (value := _finite(numbers, f"{_VALIDATION}{key}")) is not None:
            yield name, value, form


def validation_comparison(
    step: int, numbers: Numbers, before: tuple[int, Numbers] | None = None
) -> Table:
    """Return a table of a validation's main numbers next to those of the previous one."""
    table = Table(box=None, pad_edge=False, show_edge=False)
    table.add_column(f"  validation at step {step}")
    table.add_column("now", justify="right")
    earlier: dict[str, float] = {}
    if before is not None:
        table.add_column(f"step {before[0]}", justify="right")
        table.add_column("change", justify="right")
        earlier = {name: value for name, value, _ in validation_rows(before[1])}
    for name, value, form in validation_rows(numbers):
        cells = [f"    {name}", f"{value:{form}}"]
        if name in earlier:
            cells += [f"{earlier[name]:{form}}", f"{value - earlier[name]:+{form}}"]
        table.add_row(*cells)
    return table


def duration(seconds: float) -> str:
    """Return a duration in a readable form: `40 s`, `12 min`, `3 h 20 min`, `2 d 4 h`."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"


def _first(numbers: Numbers, names: Sequence[str]) -> float | None:
    return next((each for name in names if (each := _finite(numbers, name)) is not None), None)


def _finite(numbers: Numbers, name: str) -> float | None:
    value = numbers.get(name)
    return value if value is not None and math.isfinite(value) else None


def _small(value: float) -> str:
    return f"{value:.4f}" if value == 0 or abs(value) >= 0.001 else f"{value:.1e}"
