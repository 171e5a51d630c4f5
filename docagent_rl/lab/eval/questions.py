"""Questions of an evaluation."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.documents import DocumentStore
from docagent_rl.records.parquet import read_parquet
from docagent_rl.records.questions import read_questions
from docagent_rl.records.record import Record


def read_records(path: Path) -> list[Record]:
    """Read the questions of a file, `.parquet` or one JSON object a line.

    Raises:
        UserError: the file is missing, cannot be read or holds no question.
    """
    records = read_parquet(path) if path.suffix == ".parquet" else read_questions(path)
    if not records:
        raise UserError(f"{path} holds no question")
    return list(records)


def drawn(records: Sequence[Record], limit: int | None, seed: int) -> list[Record]:
    """Return so many questions by chance, in the order of the file; the same for the same arguments.

    More of them are those and others: with the same `--cache`, a larger evaluation asks for the others alone.

    Args:
        records: of the file.
        limit: how many; `None` or more than there are takes all.
        seed: of the choice.
    """
    if limit is None or limit >= len(records):
        return list(records)
    order = list(range(len(records)))
    random.Random(seed).shuffle(order)
    return [records[number] for number in sorted(order[:limit])]


def with_lengths(records: Sequence[Record], store: DocumentStore) -> list[Record]:
    """Return questions that say how long their documents are, which reports break numbers down by.

    Importers write it; questions of one's own rarely have it, and get it from the store.
    """
    return [_with_length(record, store) for record in records]


def _with_length(record: Record, store: DocumentStore) -> Record:
    if record.extra.get("num_pages") is not None or record.doc_id not in store:
        return record
    return replace(record, extra={**record.extra, "num_pages": store.document(record.doc_id).num_pages})


def digest_of(records: Sequence[Record]) -> str:
    """Return the digest of a set of questions."""
    digest = hashlib.sha256()
    for record in records:
        digest.update(record.to_json().encode() + b"\n")
    return digest.hexdigest()
