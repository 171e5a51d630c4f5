"""Training rows for supervised fine-tuning: the token sequences and masks of the ledger, as Parquet."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from docagent_rl.data.pictures import read_picture
from docagent_rl.envs.images import Picture
from docagent_rl.errors import UserError
from docagent_rl.io import atomic_write
from docagent_rl.rollout.images import EncodedImage
from docagent_rl.rollout.ledger import TurnLedger
from docagent_rl.rollout.trajectory import Trajectory

SCHEMA = pa.schema(
    [
        ("question_id", pa.string()),
        ("system", pa.string()),
        ("row", pa.int32()),
        ("reward", pa.float32()),
        ("input_ids", pa.list_(pa.int32())),
        ("loss_mask", pa.list_(pa.int8())),
        ("images", pa.list_(pa.string())),
    ]
)
"""Columns of a file; images are JSON references into a document store."""

_TOKENIZER = b"docagent_tokenizer"


@dataclass(frozen=True, slots=True)
class SftRow:
    """One context of one session, `t` tokens.

    Args:
        question_id: the question.
        system: the system that was played.
        row: number of the context in its session.
        reward: reward of the whole session, for filters.
        input_ids: `(t,)`, prompt and response.
        loss_mask: `(t,)`, 1 exactly on what the policy, or the script in its place, wrote.
        images: the images whose placeholders are in `input_ids`, in order.
    """

    question_id: str
    system: str
    row: int
    reward: float
    input_ids: tuple[int, ...]
    loss_mask: tuple[int, ...]
    images: tuple[Picture, ...]


def sft_rows(trajectory: Trajectory, ledgers: Sequence[TurnLedger]) -> list[SftRow]:
    """The rows of a session, as a training step of the trainer would have them.

    Args:
        trajectory: the session's record.
        ledgers: its contexts, from a rollout, `data.scripted` or `data.replay`.
    """
    rows = [ledger.row() for ledger in ledgers if ledger.sampled]
    return [
        SftRow(
            question_id=str(trajectory.record["question_id"]),
            system=trajectory.system,
            row=number,
            reward=trajectory.reward,
            input_ids=(*row.prompt_ids, *row.response_ids),
            loss_mask=(*[0] * len(row.prompt_ids), *row.response_mask),
            images=tuple(image.ref for image in row.images if isinstance(image, EncodedImage)),
        )
        for number, row in enumerate(rows)
    ]


def tokenizer_digest(tokenizer: Any) -> str:
    """SHA-256 of a tokenizer's vocabulary: equal digests give ids the same meaning."""
    return hashlib.sha256(json.dumps(sorted(tokenizer.get_vocab().items())).encode()).hexdigest()


def write_sft(rows: Iterable[SftRow], path: str | Path, tokenizer: Any) -> Path:
    """Write rows atomically, in the order given.

    Args:
        rows: the rows.
        path: the file.
        tokenizer: whose ids they hold; the file can be read with this vocabulary alone.

    Raises:
        UserError: there is nothing to write.
    """
    data = [
        {
            "question_id": row.question_id,
            "system": row.system,
            "row": row.row,
            "reward": row.reward,
            "input_ids": row.input_ids,
            "loss_mask": row.loss_mask,
            "images": [json.dumps(image.to_dict()) for image in row.images],
        }
        for row in rows
    ]
    if not data:
        raise UserError(f"{path}: no rows to write; supervised training needs at least one session")
    schema = SCHEMA.with_metadata({_TOKENIZER: tokenizer_digest(tokenizer).encode()})
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(data, schema=schema), buffer, compression="zstd")
    return atomic_write(path, buffer.getvalue())


def read_sft(path: str | Path, tokenizer: Any | None = None) -> Iterator[SftRow]:
    """Read the rows of a file.

    Args:
        path: the file.
        tokenizer: of the model that will be trained; `None` leaves the vocabulary unchecked.

    Raises:
        UserError: the file is missing, is no such file, or was made with another vocabulary.
    """
    file = Path(path)
    if not file.is_file():
        raise UserError(f"{file}: no such file of supervised rows")
    try:
        table = pq.read_table(file)
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(f"{file}: not a Parquet file ({error})") from error
    if not table.schema.equals(SCHEMA):
        raise UserError(f"{file}: not a file of supervised rows; expected columns {', '.join(SCHEMA.names)}")
    made_with = (table.schema.metadata or {}).get(_TOKENIZER, b"").decode()
    if tokenizer is not None and made_with != tokenizer_digest(tokenizer):
        raise UserError(f"{file}: made with the vocabulary of another model; export the sessions again")
    return (_row(values) for values in table.to_pylist())


def _row(values: dict[str, Any]) -> SftRow:
    return SftRow(
        question_id=values["question_id"],
        system=values["system"],
        row=values["row"],
        reward=values["reward"],
        input_ids=tuple(values["input_ids"]),
        loss_mask=tuple(values["loss_mask"]),
        images=tuple(read_picture(json.loads(image)) for image in values["images"]),
    )
