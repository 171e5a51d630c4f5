"""Time late interaction in one document: our scorer against those of three libraries.

python -m benchmarks.retrieval.maxsim
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import numpy as np
import torch
import typer

from benchmarks.common import best_times, show
from docagent_rl.retrieval.vectors.bank import Bank, make_bank, page_scores, rounded

DIM = 128
_TOP = 10
Call = Callable[[], np.ndarray]


def document(
    pages: int, vectors: int, tokens: int, seed: int = 0
) -> tuple[list[np.ndarray], np.ndarray]:
    """Draw the vectors of pages and of a query, all of length 1.

    Each page has a topic of its own and 0.4 to 1.6 times `vectors` vectors. The query has `tokens`
    vectors, one of which points away from all pages.
    """
    rng = np.random.default_rng(seed)
    lengths = rng.integers(vectors * 2 // 5, vectors * 8 // 5 + 1, pages)
    common = rng.standard_normal(DIM)
    found = [
        _unit(common * 0.8 + rng.standard_normal(DIM) * 0.7 + rng.standard_normal((n, DIM)))
        for n in lengths
    ]
    sources = [
        found[page][rng.integers(len(found[page]))] for page in rng.integers(0, pages, tokens)
    ]
    query = np.stack(sources) + rng.standard_normal((tokens, DIM)) * 0.08
    query[0] = -common + 0.3 * rng.standard_normal(DIM)
    return found, _unit(query)


def exact(bank: Bank, query: np.ndarray) -> np.ndarray:
    """Compute the scores of all pages by their definition, in float64, on the stored vectors."""
    asked = torch.from_numpy(rounded(query)).double()
    return np.array(
        [
            float((asked @ bank.vectors[start:end].double().T).amax(1).sum())
            for start, end in zip(bank.offsets[:-1], bank.offsets[1:], strict=True)
        ]
    )


def scorers(pages: list[np.ndarray], bank: Bank, query: np.ndarray) -> dict[str, Call]:
    """Return functions that compute the scores of all pages.

    The libraries get float32 vectors that are rounded to bfloat16, as ours are.
    """
    from colpali_engine.models import ColQwen2_5_Processor
    from sentence_transformers.util import maxsim
    from transformers import ColQwen2Processor

    asked = torch.from_numpy(rounded(query))
    kept = [torch.from_numpy(page).bfloat16().float() for page in pages]
    processor = object.__new__(ColQwen2Processor)  # scoring reads none of its attributes
    return {
        "colpali-engine score_multi_vector": lambda: ColQwen2_5_Processor.score_multi_vector(
            [asked], kept, device="cpu"
        )[0].numpy(),
        "transformers score_retrieval": lambda: processor.score_retrieval([asked], kept)[0].numpy(),
        "sentence-transformers maxsim": lambda: maxsim([asked], kept)[0].numpy(),
        "ours": lambda: page_scores(bank, [query])[0],
    }


def main(
    pages: Annotated[int, typer.Option(help="Pages of the document.")] = 500,
    vectors: Annotated[int, typer.Option(help="Average number of vectors of a page.")] = 730,
    tokens: Annotated[int, typer.Option(help="Vectors of the query.")] = 20,
    repeats: Annotated[int, typer.Option(help="Rounds; the best counts.")] = 7,
) -> None:
    """Print each scorer's processor time on one thread, and how well it agrees with float64."""
    torch.set_num_threads(1)
    found, query = document(pages, vectors, tokens)
    bank = make_bank(found, DIM)
    calls = scorers(found, bank, query)
    seconds, scores = best_times(calls, repeats, cpu=True)
    want = exact(bank, query)
    top = set(np.argsort(-want, kind="stable")[:_TOP].tolist())
    base = seconds["colpali-engine score_multi_vector"]
    rows = [
        (
            name,
            f"{seconds[name] * 1e3:.1f}",
            f"{base / seconds[name]:.1f}",
            f"{np.abs(scores[name] - want).max():.1e}",
            str(len(top & set(np.argsort(-scores[name], kind="stable")[:_TOP].tolist()))),
        )
        for name in calls
    ]
    title = f"{tokens} query vectors, {pages} pages, {bank.offsets[-1]} vectors of {DIM}"
    show(title, ("scorer", "CPU ms", "times as fast", "largest error", f"of the top {_TOP}"), rows)


def _unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


if __name__ == "__main__":
    typer.run(main)
