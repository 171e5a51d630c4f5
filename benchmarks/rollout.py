"""Measure processor time and bytes of a step's trajectories, by part and system.

Each system is measured twice: as this package handles trajectories, and as an opponent that gives
verl what its interfaces suggest. Environments, the processor of Qwen2.5-VL, vLLM's front end with
its cache and verl's TransferQueue are real; only the generate function answers at once, without a
model. Some trajectories are made and measured; a whole step is estimated from them in proportion to
its number of trajectories. The part `make features` runs on the trainer's GPU if there is one, so
the table also has a sum without it.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MethodType
from typing import Annotated, Any, NamedTuple

import torch
import typer

from benchmarks.common import show
from benchmarks.costs import PARTS, StepCosts
from benchmarks.full_trajectories import (
    FULL,
    MadeTrajectory,
    TrajectoryBatch,
    compose_full_size,
    make_trajectories,
    make_workspace,
)
from benchmarks.image_replay import (
    EachRow,
    Replay,
    Row,
    StepSetup,
    replay_as_opponent,
    replay_as_package,
    with_features,
)
from benchmarks.row_traffic import RowTraffic, queue
from docagent_rl.envs.images import render

ReplayFunction = Callable[[StepSetup, Sequence[MadeTrajectory], EachRow], Replay]
"""A function that processes the images of trajectories; see `benchmarks.image_replay`."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The measurements of one system.

    Args:
        system: the system's name.
        theirs: the opponent's costs.
        mine: this package's costs.
        unique: the number of different images in all trajectories.
        preprocessings: how often an image was preprocessed by the opponent and by this package.
    """

    system: str
    theirs: StepCosts
    mine: StepCosts
    unique: int
    preprocessings: tuple[int, int]


def main(
    system: Annotated[
        list[str] | None, typer.Option(help="A system; repeatable. All by default.")
    ] = None,
    trajectories: Annotated[int, typer.Option(help="Trajectories to make and measure.")] = 8,
    group: Annotated[int, typer.Option(help="Trajectories of a question.")] = 4,
    workers: Annotated[int, typer.Option(help="Agent workers.")] = 2,
    servers: Annotated[int, typer.Option(help="Rollout servers.")] = 2,
    room: Annotated[
        int,
        typer.Option(help="MiB of rows to store; the other rows are assumed to take as much each."),
    ] = 512,
    whole: Annotated[
        int, typer.Option(help="Trajectories of the step whose time and bytes are estimated.")
    ] = 512,
    seed: Annotated[int, typer.Option(help="Seed of the documents.")] = 1,
) -> None:
    """Make trajectories, measure both ways of handling them, and estimate a whole step.

    Example: python -m benchmarks.rollout --system alden
    """
    torch.set_num_threads(1)
    documents = max(4, math.ceil(trajectories / group))
    comparisons = []
    with tempfile.TemporaryDirectory() as name_of_folder:
        folder = Path(name_of_folder)
        questions = make_workspace(folder, documents, seed)
        processor = qwen2_5_vl()
        for name in system or sorted(FULL):
            run = compose_full_size(name, folder)
            batch = make_trajectories(name, run, processor, questions, trajectories, group)
            setup = StepSetup(
                processor,
                render=partial(render, store=batch.store),
                front_ends=[front_end(folder / "model", processor) for _ in range(servers)],
                workers=workers,
                group=group,
                passes=len(batch.passes),
            )
            with queue():
                comparison = compare(batch, setup, max_bytes=room << 20)
            report(comparison, batch)
            comparisons.append(comparison)
    totals(comparisons, whole / trajectories, f"{whole} trajectories of each system")


def compare(batch: TrajectoryBatch, setup: StepSetup, max_bytes: int) -> Comparison:
    """Measure how this package and the opponent handle the same trajectories.

    Args:
        batch: the trajectories.
        setup: workers and servers.
        max_bytes: the most bytes of rows to put into the queue.

    Raises:
        RuntimeError: the features of the first row are not equal to the bit.
    """
    ours = _measure(batch, setup, max_bytes, replay_as_package, compact=True)
    theirs = _measure(batch, setup, max_bytes, replay_as_opponent, compact=False)
    for name, value in theirs.first_row.items():
        if not torch.equal(value, ours.first_row[name]):
            raise RuntimeError(f"{batch.system}: {name} differs")

    images = {
        ref.key
        for trajectory in batch.trajectories
        for request in trajectory.requests
        for ref in request
    }
    preprocessings = (theirs.preprocessings, ours.preprocessings)
    return Comparison(batch.system, theirs.costs, ours.costs, len(images), preprocessings)


class _Measurement(NamedTuple):
    """The measurements of one way of handling trajectories."""

    costs: StepCosts
    preprocessings: int
    first_row: Row


def _measure(
    batch: TrajectoryBatch,
    setup: StepSetup,
    max_bytes: int,
    replay: ReplayFunction,
    *,
    compact: bool,
) -> _Measurement:
    """Replay a batch, and move its rows and records; see `RowTraffic` for `compact`."""
    traffic_costs = StepCosts()
    traffic = RowTraffic(batch, traffic_costs, compact, max_bytes)
    traffic.warm_up()
    first_row: Row = {}

    def store_row(number: int, row_number: int, row: Row) -> None:
        if number == row_number == 0:
            first_row.update(with_features(row))
        traffic.store_row(number, row_number, row)

    replayed = replay(setup, batch.trajectories, store_row)
    traffic.passes()
    traffic.records()

    # else the next replay would find its images preprocessed
    for front_end in setup.front_ends:
        front_end.renderer.mm_processor_cache.clear_cache()
    costs = StepCosts({**replayed.costs.parts, **traffic_costs.parts})
    return _Measurement(costs, replayed.preprocessings, first_row)


def report(found: Comparison, batch: TrajectoryBatch) -> None:
    """Print the costs of both ways of a system side by side."""
    theirs, ours = found.theirs, found.mine
    rows = []
    for name in PARTS:
        their_cost = theirs.part(name)
        our_cost = ours.part(name)
        rows.append(
            [
                name,
                f"{their_cost.seconds:.2f}",
                f"{our_cost.seconds:.2f}",
                _mib(their_cost.nbytes),
                _mib(our_cost.nbytes),
            ]
        )
    for name, with_features_part in {"without features": False, "all": True}.items():
        their_seconds = theirs.seconds(features=with_features_part)
        our_seconds = ours.seconds(features=with_features_part)
        rows += [
            [
                name,
                f"{their_seconds:.2f}",
                f"{our_seconds:.2f}",
                _mib(theirs.nbytes),
                _mib(ours.nbytes),
            ],
            [
                "  times",
                "",
                f"{their_seconds / our_seconds:.1f}",
                "",
                f"{theirs.nbytes / ours.nbytes:.1f}",
            ],
        ]
    turns = [len(each.trajectory.turns) for each in batch.trajectories]
    images = [sum(map(len, each.row_images)) for each in batch.trajectories]
    title = (
        f"{found.system}: {len(turns)} trajectories of {min(turns)} to {max(turns)} turns and "
        f"{min(images)} to "
        f"{max(images)} images, {found.unique} different ones; {len(batch.passes)} passes"
    )
    show(title, ["part", "opponent, CPU s", "ours, CPU s", "opponent, MiB", "ours, MiB"], rows)
    if found.unique:
        by_opponent, by_package = (times / found.unique for times in found.preprocessings)
        typer.echo(
            f"preprocessings per different image: opponent {by_opponent:.2f}, ours {by_package:.2f}"
        )


def totals(found: list[Comparison], factor: float, title: str) -> None:
    """Print one line for each system, for a step that is `factor` times as large."""
    rows = []
    for comparison in found:
        theirs = comparison.theirs.times(factor)
        ours = comparison.mine.times(factor)
        their_seconds = theirs.seconds(features=False)
        our_seconds = ours.seconds(features=False)
        rows.append(
            [
                comparison.system,
                f"{their_seconds:,.0f}",
                f"{our_seconds:,.0f}",
                f"{their_seconds / our_seconds:.1f}",
                f"{theirs.nbytes / 2**30:,.1f}",
                f"{ours.nbytes / 2**30:,.1f}",
                f"{theirs.nbytes / ours.nbytes:.1f}",
            ]
        )
    columns = ["", "opponent, CPU s", "ours, CPU s", "times", "opponent, GiB", "ours, GiB", "times"]
    show(title, columns, rows)


def _mib(nbytes: float) -> str:
    return f"{nbytes / 2**20:,.1f}"


def qwen2_5_vl() -> Any:
    """Return the processor of the released checkpoints, with a small tokenizer.

    It has the model's functions for position ids, which verl adds to it.
    """
    from transformers import Qwen2_5_VLModel

    from docagent_rl.lab.tiny.shapes import build_processor, tiny_config
    from docagent_rl.lab.tiny.tokenizer import build_tokenizer

    processor = build_processor(build_tokenizer())
    processor.config = tiny_config(processor.tokenizer)
    for name in ("get_rope_index", "get_vision_position_ids"):
        setattr(processor, name, MethodType(getattr(Qwen2_5_VLModel, name), processor))
    return processor


def front_end(folder: Path, processor: Any) -> Any:
    """Return vLLM's front end for Qwen2.5-VL, without an engine; `folder` gets its model files."""
    import verl  # noqa: F401  loads our plugin, which makes vLLM find its platform
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.input_processor import InputProcessor

    from docagent_rl.lab.tiny.shapes import tiny_config

    config = tiny_config(processor.tokenizer)
    config.architectures = ["Qwen2_5_VLForConditionalGeneration"]
    config.save_pretrained(folder)
    processor.save_pretrained(folder)
    arguments = AsyncEngineArgs(
        model=str(folder),
        dtype="bfloat16",
        max_model_len=2048,
        enforce_eager=True,
        limit_mm_per_prompt={"image": 99},
    )
    return InputProcessor(arguments.create_engine_config())


if __name__ == "__main__":
    typer.run(main)
