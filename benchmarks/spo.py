"""SPO over all groups at once against a loop over groups."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import torch
import typer
from torch import Tensor

from benchmarks.common import CPU_TIME, best_times, show, single_thread
from docagent_rl.advantages.spo import similarity_advantages


def sessions(count: int, size: int, width: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rewards, group numbers and embeddings in random order; members of a group are alike, as texts are."""
    generator = torch.Generator().manual_seed(seed)
    group = (torch.arange(count) // size)[torch.randperm(count, generator=generator)]
    topics = torch.randn(-(-count // size), width, generator=generator)
    embeddings = topics[group] + torch.randn(count, width, generator=generator)
    return torch.rand(count, generator=generator, dtype=torch.float64), group, embeddings


def loop(rewards: Tensor, group: Tensor, embeddings: Tensor) -> Tensor:
    """The formula, one group after the other."""
    members: dict[int, list[int]] = {}
    for session, number in enumerate(group.tolist()):
        members.setdefault(number, []).append(session)
    advantages = torch.zeros_like(rewards)
    for each in members.values():
        at = torch.tensor(each)
        vectors = torch.nn.functional.normalize(embeddings[at], dim=-1)
        similar = (vectors @ vectors.T).clamp(0.0, 1.0).double().fill_diagonal_(1.0)
        weights = similar / similar.sum(-1, keepdim=True)
        advantages[at] = rewards[at] - weights @ rewards[at]
    return advantages


def main(
    count: Annotated[int, typer.Option("--trajectories", help="Sessions of the batch.")] = 4096,
    sizes: Annotated[list[int] | None, typer.Option("--group", help="Sessions a group; repeatable.")] = None,
    widths: Annotated[
        list[int] | None, typer.Option("--dim", help="Entries of an embedding; repeatable.")
    ] = None,
    repeats: Annotated[int, typer.Option(help="Rounds; the best time counts.")] = 5,
    cpu: Annotated[bool, typer.Option("--cpu-time", help=CPU_TIME)] = False,
    seed: Annotated[int, typer.Option(help="Of rewards and embeddings.")] = 0,
) -> None:
    """Time SPO's advantages and the same in a plain loop over groups, in one run.

    Example: python -m benchmarks.spo --group 8 --dim 1024
    """
    single_thread(cpu)
    rows = []
    for width in widths or [384, 1024]:
        for size in sizes or [4, 8, 16]:
            batch = sessions(count, size, width, seed)
            calls = {"spo": partial(similarity_advantages, *batch), "loop": partial(loop, *batch)}
            seconds, results = best_times(calls, repeats, cpu)
            difference = float((results["spo"] - results["loop"]).abs().max())
            ratio = seconds["loop"] / seconds["spo"]
            times = (f"{seconds[name] * 1000:.1f}" for name in ("spo", "loop"))
            rows.append(
                [f"groups of {size}, {width} dimensions", *times, f"{ratio:.1f}", f"{difference:.0e}"]
            )
    columns = ["", "spo, ms", "loop, ms", "times as fast", "largest difference"]
    show(f"{count:,} trajectories", columns, rows)


if __name__ == "__main__":
    typer.run(main)
