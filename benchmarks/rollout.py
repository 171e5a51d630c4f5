"""Measure processor time and bytes of a step's trajectories, by part and system.

Each system is measured twice: as this package handles trajectories, and as an opponent that gives
verl what its interfaces suggest. Environments, the processor of Qwen2.5-VL, vLLM's front end with
its cache and verl's TransferQueue are real; only the generate function answers at once, without a
model. Some trajectories are made and measured; a whole step is estimated from them in proportion to
its number of trajectories. The part `make features` runs on the trainer's GPU if there is one, so
the table also has a sum without it.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from benchmarks.bill import PARTS, Bill
from benchmarks.common import show
from benchmarks.full_trajectories import FULL, Theatre, configured, play, workspace
from benchmarks.image_replay import EachRow, Row, Stage, opponent, ours, read
from benchmarks.row_traffic import Traffic, queue
from docagent_rl.envs.images import render


@dataclass(frozen=True, slots=True)
class Comparison:
    """The measurements of one system.

    Args:
        system: the system's name.
        theirs: the opponent's bill.
        mine: this package's bill.
        unique: the number of different images in all trajectories.
        preprocessings: how often an image was preprocessed by the opponent and by this package.
    """

    system: str
    theirs: Bill
    mine: Bill
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
    found = []
    with tempfile.TemporaryDirectory() as folder:
        questions = workspace(Path(folder), max(4, -(-trajectories // group)), seed)
        processor = qwen2_5_vl()
        for name in system or sorted(FULL):
            run = configured(name, Path(folder))
            theatre = play(name, run, processor, questions, trajectories, group)
            ends = [front_end(Path(folder) / "model", processor) for _ in range(servers)]
            draw = partial(render, store=theatre.store)
            stage = Stage(processor, draw, ends, workers, group, len(theatre.passes))
            with queue():
                found.append(compare(theatre, stage, room << 20))
            report(found[-1], theatre)
    totals(found, whole / trajectories, f"{whole} trajectories of each system")


def compare(theatre: Theatre, stage: Stage, room: int) -> Comparison:
    """Measure how this package and the opponent handle the same trajectories.

    Args:
        theatre: the trajectories.
        stage: workers and servers.
        room: the most bytes of rows to put into the queue.

    Raises:
        RuntimeError: the features of the first row are not equal to the bit.
    """
    bills, times, firsts = [], [], []
    for replay, compact in ((ours, True), (opponent, False)):
        own = Bill()
        traffic = Traffic(theatre, own, compact, room)
        traffic.warm_up()

        def each_row(number: int, place: int, row: Row, store: EachRow = traffic.each_row) -> None:
            if not number and not place:
                firsts.append(read(row))
            store(number, place, row)

        made = replay(stage, theatre.trajectories, each_row)
        traffic.passes()
        traffic.samples()
        bills.append(Bill({**made.bill.parts, **own.parts}))
        times.append(made.preprocessings)
        for each in stage.front_ends:
            each.renderer.mm_processor_cache.clear_cache()
    for name, value in firsts[1].items():
        if not torch.equal(value, firsts[0][name]):
            raise RuntimeError(f"{theatre.system}: {name} differs")
    unique = {ref.key for each in theatre.trajectories for refs in each.requests for ref in refs}
    return Comparison(theatre.system, bills[1], bills[0], len(unique), (times[1], times[0]))


def report(found: Comparison, theatre: Theatre) -> None:
    """Print both bills of a system side by side."""
    rows = []
    for name in PARTS:
        a, b = found.theirs.part(name), found.mine.part(name)
        rows.append([name, f"{a.seconds:.2f}", f"{b.seconds:.2f}", _mib(a.nbytes), _mib(b.nbytes)])
    for name, everything in {"without features": False, "all": True}.items():
        a, b = (bill.seconds(features=everything) for bill in (found.theirs, found.mine))
        rows.append(
            [name, f"{a:.2f}", f"{b:.2f}", _mib(found.theirs.nbytes), _mib(found.mine.nbytes)]
        )
        rows.append(
            ["  times", "", f"{a / b:.1f}", "", f"{found.theirs.nbytes / found.mine.nbytes:.1f}"]
        )
    turns = [len(each.trajectory.turns) for each in theatre.trajectories]
    images = [sum(map(len, each.rows)) for each in theatre.trajectories]
    title = (
        f"{found.system}: {len(turns)} trajectories of {min(turns)} to {max(turns)} turns and "
        f"{min(images)} to "
        f"{max(images)} images, {found.unique} different ones; {len(theatre.passes)} passes"
    )
    show(title, ["part", "opponent, CPU s", "ours, CPU s", "opponent, MiB", "ours, MiB"], rows)
    if found.unique:
        a, b = (times / found.unique for times in found.preprocessings)
        typer.echo(f"preprocessings per different image: opponent {a:.2f}, ours {b:.2f}")


def totals(found: list[Comparison], factor: float, title: str) -> None:
    """Print one line for each system, for a step that is `factor` times as large."""
    rows = []
    for each in found:
        a, b = each.theirs.times(factor), each.mine.times(factor)
        spent = [bill.seconds(features=False) for bill in (a, b)]
        rows.append(
            [
                each.system,
                *(f"{seconds:,.0f}" for seconds in spent),
                f"{spent[0] / spent[1]:.1f}",
                *(f"{bill.nbytes / 2**30:,.1f}" for bill in (a, b)),
                f"{a.nbytes / b.nbytes:.1f}",
            ]
        )
    columns = ["", "opponent, CPU s", "ours, CPU s", "times", "opponent, GiB", "ours, GiB", "times"]
    show(title, columns, rows)


def _mib(nbytes: float) -> str:
    return f"{nbytes / 2**20:,.1f}"


def qwen2_5_vl() -> Any:
    """Return the image processor of the released checkpoints, with a small tokenizer."""
    from docagent_rl.lab.tiny.shapes import build_processor
    from docagent_rl.lab.tiny.tokenizer import build_tokenizer

    return build_processor(build_tokenizer())


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
