"""The time of a training step by part, computed from operations and bytes.

A step plays all its trajectories, and then trains on their rows; the parts follow one another, as
in the trainer modes that do not overlap them. `rates.py` has the constants.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from docagent_rl.checks.budget import Run
from docagent_rl.checks.cards import Speed
from docagent_rl.checks.passes import Model
from docagent_rl.checks.rates import Rates
from docagent_rl.models.layers import BFLOAT16

TURN = 180
"""Sampled tokens of a turn: assumed."""


@dataclass(frozen=True, slots=True)
class StepSizes:
    """The sizes of a step that a recipe only bounds.

    Args:
        row: tokens of a row.
        image: visual tokens of a row.
        sampled: sampled tokens of a row.
        searches: searches of a row.
        search_s: seconds of the search service for each search, if it does nothing else.
    """

    row: int
    image: int
    sampled: int
    searches: float = 0.0
    search_s: float = 0.0
    several: int = 1
    """Rows of a trajectory, which are played one after the other."""
    reference: bool = False
    """Whether the log-probs of a reference are computed."""


@dataclass(frozen=True, slots=True)
class TimeLine:
    """The seconds of a part of a step, and what they were computed from."""

    part: str
    seconds: float
    formula: str


def step_time(
    run: Run, sizes: StepSizes, speed: Speed, cache: int, rates: Rates | None = None
) -> list[TimeLine]:
    """Return the time of a step by part.

    Args:
        run: the run's models, rows and GPUs.
        sizes: the sizes of a row.
        speed: the speed of each GPU.
        cache: bytes of each of a server's GPUs for keys and values.
        rates: the constants of the formula, if some were measured.
    """
    rates = rates or Rates()
    return [*_rollout(run, sizes, speed, cache, rates), *_training(run, sizes, speed, rates)]


def _rollout(
    run: Run, sizes: StepSizes, speed: Speed, cache: int, rates: Rates
) -> Iterator[TimeLine]:
    server = run.server
    gpus = run.gpus_per_node * run.nodes
    servers = max(1, gpus // server.gpus)
    read = run.rows * (sizes.row - sizes.sampled)
    # all images are read, whatever was sampled
    tower = _tower(server.model, sizes) * sizes.row / max(1, sizes.row - sizes.sampled)
    each = prompt_operations(server.model, sizes) - _tower(server.model, sizes) + tower
    yield TimeLine(
        "reading prompts and pages",
        read * each / (gpus * speed.operations * rates.prefill.value),
        f"{read:,} tokens x {each:.3g} operations / ({gpus} GPUs x {speed.operations:.3g} x "
        f"{rates.prefill})",
    )
    per_server = -(-run.rows // servers)
    # half of the row is there on average
    keys = max(1, server.trajectory * sizes.row // server.longest)
    together = max(1, min(per_server // sizes.several, cache // keys))
    steps = per_server * sizes.sampled / together
    bytes_read = sampling_weights(server.model) / server.gpus + together * keys / 2
    yield TimeLine(
        "sampling",
        steps * bytes_read / (speed.bandwidth * rates.decoding.value),
        f"{steps:,.0f} steps of {together} trajectories x {bytes_read / 1e9:.1f}e9 bytes / "
        f"({speed.bandwidth:.3g} x {rates.decoding})",
    )
    searches = run.rows * sizes.searches
    if searches and sizes.search_s:
        yield TimeLine(
            "searches",
            searches * sizes.search_s,
            f"{searches:,.0f} searches x {sizes.search_s:g} s of the service, if it is always busy",
        )


def _training(run: Run, sizes: StepSizes, speed: Speed, rates: Rates) -> Iterator[TimeLine]:
    gpus = run.gpus_per_node * run.nodes
    rate = gpus * speed.operations * rates.training.value
    tokens = run.rows * sizes.row
    policy, *critics = run.trained

    def line(part: str, each: float) -> TimeLine:
        formula = (
            f"{tokens:,} tokens x {each:.3g} operations / ({gpus} GPUs x {speed.operations:.3g} x "
            f"{rates.training})"
        )
        return TimeLine(part, tokens * each / rate, formula)

    yield line("old log-probs", forward(policy.model, sizes))
    if sizes.reference:
        yield line("reference log-probs", forward(policy.model, sizes))
    for critic in critics:
        yield line("values", forward(critic.model, sizes))
    for part in (*critics, policy):
        # a backward pass costs two forward passes, or one if only adapters have gradients; with
        # checkpointing, layers are computed again
        passes = (4 if part.checkpointing else 3) - bool(part.adapters)
        each = passes * forward(part.model, sizes)
        if part.frozen_vision:
            each -= (passes - 1) * _tower(part.model, sizes)
        yield line(f"update of the {part.name}", each)
    # adapters that are not merged are all that a server receives
    weights = BFLOAT16 * (run.server.adapters or policy.model.parameters)
    yield TimeLine(
        "weight sync",
        weights / rates.sync.value,
        f"{weights / 1e9:.1f}e9 bytes / {rates.sync} per second",
    )


def forward(model: Model, sizes: StepSizes) -> float:
    """Return the operations of a forward pass per token of a row: two per parameter, and those of
    attention, each token to half of the row on average.
    """
    attending = model.layers - model.linear_layers
    attention = 2 * attending * model.hidden * sizes.row
    # embeddings are looked up, but those that are the output head, too, are multiplied
    looked_up = model.embeddings if model.head else 0
    language = 2 * (model.parameters - model.vision - looked_up) + attention
    return language + _tower(model, sizes)


def sampling_weights(model: Model) -> int:
    """Return the bytes of the weights that a server reads to sample a token, bfloat16: neither the
    vision tower nor embeddings that are only looked up.
    """
    looked_up = model.embeddings if model.head else 0
    return BFLOAT16 * (model.parameters - model.vision - looked_up)


def prompt_operations(model: Model, sizes: StepSizes) -> float:
    """Return the operations per token of a server that reads a row: it computes logits only where
    it samples.
    """
    return forward(model, sizes) - 2 * (model.head or model.embeddings)


def _tower(model: Model, sizes: StepSizes) -> float:
    """Return the operations of the vision tower per token of a row."""
    if model.tower is None:
        return 0.0
    return 2 * model.vision * model.tower.patches * sizes.image / sizes.row


def time_markdown(lines: Sequence[TimeLine]) -> str:
    """Return the parts of a step as a table in Markdown, with their shares."""
    whole = sum(line.seconds for line in lines)
    rows = [
        f"| {line.part} | {line.seconds:,.1f} | {line.seconds / whole:.0%} | {line.formula} |"
        for line in lines
    ]
    head = "| part of a step | seconds | share | computed from |\n|---|---:|---:|---|"
    return "\n".join([head, *rows, f"| whole step | {whole:,.1f} | | |"]) + "\n"
