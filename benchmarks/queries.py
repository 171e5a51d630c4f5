"""Time the encoding of many trajectories' queries, one by one and in batches."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

import typer

from benchmarks.common import CPU_TIME, best_times, show, single_thread
from docagent_rl.retrieval.encoders.opening import QueryEncoder, open_encoder
from docagent_rl.retrieval.encoders.spec import DEFAULT, Encoder, named_spec

WORDS = (
    "revenue",
    "table",
    "growth",
    "figure",
    "of",
    "the",
    "largest",
    "company",
    "in",
    "year",
    "compare",
)


def questions(count: int) -> list[str]:
    """Return distinct queries, each with 6 to 14 words after its number."""
    return [
        f"question {n}: " + " ".join(WORDS[(n * 7 + k * 5) % len(WORDS)] for k in range(6 + n % 9))
        for n in range(count)
    ]


def ask(encoder: Encoder, queries: list[str], trajectories: int) -> int:
    """Encode each query in a call of its own, `trajectories` calls at a time.

    Returns:
        the number of embeddings.
    """
    with ThreadPoolExecutor(trajectories) as pool:
        return sum(
            len(answer)
            for answer in pool.map(lambda query: encoder.encode_queries([query]), queries)
        )


def main(
    count: Annotated[int, typer.Option(help="Number of queries.")] = 512,
    trajectories: Annotated[int, typer.Option(help="Trajectories that ask concurrently.")] = 128,
    repeats: Annotated[int, typer.Option(help="Rounds; the best time counts.")] = 5,
    cpu_time: Annotated[bool, typer.Option(help=CPU_TIME)] = False,
) -> None:
    """Time the embedded model behind `QueryEncoder` against the model alone."""
    single_thread(cpu_time)
    model = open_encoder(named_spec(DEFAULT))
    distinct = questions(count)
    calls: dict[str, Callable[[], int]] = {
        "the model, one query a call": lambda: ask(model, distinct, trajectories),
        "QueryEncoder, batches of 32": lambda: ask(QueryEncoder(model), distinct, trajectories),
    }
    seconds, _ = best_times(calls, repeats, cpu_time)
    base = seconds["the model, one query a call"]
    rows = [(n, f"{1000 * s / count:.2f}", f"{base / s:.1f}") for n, s in seconds.items()]
    show(
        f"{count} queries of {trajectories} trajectories", ("", "ms a query", "times as fast"), rows
    )


if __name__ == "__main__":
    typer.run(main)
