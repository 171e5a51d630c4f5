"""Time SPO over all groups at once against a loop over groups and a batched matrix product."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import torch
import typer
from torch import Tensor

from benchmarks.common import CPU_TIME, best_times, show, single_thread
from docagent_rl.advantages.spo import similarity_advantages


def trajectories(count: int, size: int, width: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw rewards, group numbers and embeddings, with the groups in random order.

    Embeddings of a group are similar to each other, as those of its texts are.

    Args:
        count: the number of trajectories.
        size: the number of trajectories of a group.
        width: the number of entries of an embedding.
        seed: the seed.

    Returns:
        rewards and groups, both of shape (count,), and embeddings of shape (count, width).
    """
    generator = torch.Generator().manual_seed(seed)
    group = (torch.arange(count) // size)[torch.randperm(count, generator=generator)]
    topics = torch.randn(-(-count // size), width, generator=generator)
    embeddings = topics[group] + torch.randn(count, width, generator=generator)
    return torch.rand(count, generator=generator, dtype=torch.float64), group, embeddings


def loop(rewards: Tensor, group: Tensor, embeddings: Tensor) -> Tensor:
    """Compute the advantages, one group after the other."""
    members: dict[int, list[int]] = {}
    for trajectory, number in enumerate(group.tolist()):
        members.setdefault(number, []).append(trajectory)
    advantages = torch.zeros_like(rewards)
    for each in members.values():
        at = torch.tensor(each)
        vectors = torch.nn.functional.normalize(embeddings[at], dim=-1)
        similar = (vectors @ vectors.T).clamp(0.0, 1.0).double().fill_diagonal_(1.0)
        weights = similar / similar.sum(-1, keepdim=True)
        advantages[at] = rewards[at] - weights @ rewards[at]
    return advantages


def matmul(rewards: Tensor, group: Tensor, embeddings: Tensor) -> Tensor:
    """Compute the advantages of groups of equal size in one batched product, without checks."""
    order = torch.argsort(group)
    size = int((group == group[0]).sum())
    vectors = embeddings.index_select(0, order).view(-1, size, embeddings.shape[1])
    vectors = torch.nn.functional.normalize(vectors, dim=-1)
    similar = (vectors @ vectors.mT).clamp(0.0, 1.0).double()
    weights = similar / similar.sum(-1, keepdim=True)
    own = rewards[order].view(-1, size, 1)
    advantages = torch.empty_like(rewards)
    advantages[order] = (own - weights @ own).view(-1)
    return advantages


def main(
    count: Annotated[int, typer.Option("--trajectories", help="Trajectories of the batch.")] = 4096,
    sizes: Annotated[
        list[int] | None, typer.Option("--group", help="Trajectories a group; repeatable.")
    ] = None,
    widths: Annotated[
        list[int] | None, typer.Option("--dim", help="Entries of an embedding; repeatable.")
    ] = None,
    repeats: Annotated[int, typer.Option(help="Rounds; the best time counts.")] = 5,
    cpu: Annotated[bool, typer.Option("--cpu-time", help=CPU_TIME)] = False,
    seed: Annotated[int, typer.Option(help="Seed of rewards and embeddings.")] = 0,
) -> None:
    """Time SPO's advantages against a loop over groups and against one batched product.

    Example: python -m benchmarks.spo --group 8 --dim 1024
    """
    single_thread(cpu)
    rows = []
    for width in widths or [384, 1024]:
        for size in sizes or [4, 8, 16]:
            batch = trajectories(count, size, width, seed)
            opponents = {"loop": loop} | ({} if count % size else {"product": matmul})
            calls = {
                name: partial(way, *batch)
                for name, way in {"spo": similarity_advantages, **opponents}.items()
            }
            seconds, results = best_times(calls, repeats, cpu)
            row = [f"groups of {size}, {width}", f"{seconds['spo'] * 1000:.1f}"]
            for name in ("loop", "product"):
                known = name in opponents
                row.append(f"{seconds[name] * 1000:.1f}" if known else "")
                row.append(f"{seconds[name] / seconds['spo']:.2f}" if known else "")
            difference = max(
                float((results["spo"] - results[name]).abs().max()) for name in opponents
            )
            rows.append([*row, f"{difference:.0e}"])
    columns = ["size, width", "spo, ms", "loop, ms", "ratio", "product, ms", "ratio", "difference"]
    show(f"{count:,} trajectories; ratio: how many times as fast spo is", columns, rows)


if __name__ == "__main__":
    typer.run(main)
