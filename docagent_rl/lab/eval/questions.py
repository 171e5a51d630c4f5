"""Questions of an evaluation."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.documents import DocumentStore
from docagent_rl.samples.parquet import read_parquet
from docagent_rl.samples.questions import read_questions
from docagent_rl.samples.sample import Sample


def read_samples(path: Path) -> list[Sample]:
    """Read the questions of a file, `.parquet` or one JSON object a line.

    Raises:
        UserError: the file is missing, cannot be read or holds no question.
    """
    samples = read_parquet(path) if path.suffix == ".parquet" else read_questions(path)
    if not samples:
        raise UserError(f"{path} holds no question")
    return list(samples)


def drawn(samples: Sequence[Sample], limit: int | None, seed: int) -> list[Sample]:
    """Return so many questions by chance, in the order of the file; the same for the same arguments.

    More of them are those and others: with the same `--cache`, a larger evaluation asks for the others alone.

    Args:
        samples: of the file.
        limit: how many; `None` or more than there are takes all.
        seed: of the choice.
    """
    if limit is None or limit >= len(samples):
        return list(samples)
    order = list(range(len(samples)))
    random.Random(seed).shuffle(order)
    return [samples[number] for number in sorted(order[:limit])]


def with_lengths(samples: Sequence[Sample], store: DocumentStore) -> list[Sample]:
    """Return questions that say how long their documents are, which reports break numbers down by.

    Importers write it; questions of one's own rarely have it, and get it from the store.
    """
    return [_with_length(sample, store) for sample in samples]


def _with_length(sample: Sample, store: DocumentStore) -> Sample:
    if sample.extra.get("num_pages") is not None or sample.doc_id not in store:
        return sample
    return replace(sample, extra={**sample.extra, "num_pages": store.document(sample.doc_id).num_pages})


def digest_of(samples: Sequence[Sample]) -> str:
    """Return the digest of a set of questions."""
    digest = hashlib.sha256()
    for sample in samples:
        digest.update(sample.to_json().encode() + b"\n")
    return digest.hexdigest()
