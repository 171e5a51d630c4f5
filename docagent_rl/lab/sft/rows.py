"""Training rows for supervised fine-tuning: the token sequences and masks of the ledger, as Parquet."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from docagent_rl.base.io import atomic_write
from docagent_rl.lab.sft.files import SftFile, SftRow, file_pieces
from docagent_rl.lab.sft.replay import PlacedPicture
from docagent_rl.rollout.images import EncodedImage
from docagent_rl.rollout.ledger import TurnLedger
from docagent_rl.rollout.trajectory import Trajectory


def sft_rows(trajectory: Trajectory, ledgers: Sequence[TurnLedger]) -> list[SftRow]:
    """The rows of a trajectory, as a training step of the trainer would have them.

    Args:
        trajectory: what was played.
        ledgers: its contexts, from a rollout, `sft.scripted` or `sft.replay`.
    """
    rows = [ledger.row() for ledger in ledgers if ledger.sampled]
    return [
        SftRow(
            question_id=str(trajectory.sample["question_id"]),
            system=trajectory.system,
            row=number,
            reward=trajectory.reward,
            input_ids=(*row.prompt_ids, *row.response_ids),
            loss_mask=(*[0] * len(row.prompt_ids), *row.response_mask),
            images=tuple(
                image.ref for image in row.images if isinstance(image, EncodedImage | PlacedPicture)
            ),
        )
        for number, row in enumerate(rows)
    ]


def tokenizer_digest(tokenizer: Any) -> str:
    """SHA-256 of a tokenizer's vocabulary: equal digests give ids the same meaning."""
    return hashlib.sha256(json.dumps(sorted(tokenizer.get_vocab().items())).encode()).hexdigest()


def write_sft(rows: Iterable[SftRow], path: str | Path, tokenizer: Any) -> Path:
    """Write rows atomically, in the order given; a few of them are held in memory at a time.

    Args:
        rows: the rows.
        path: the file.
        tokenizer: whose ids they hold; the file can be read with this vocabulary alone.

    Raises:
        UserError: there is nothing to write.
    """
    return atomic_write(path, file_pieces(rows, tokenizer_digest(tokenizer), str(path)))


def read_sft(path: str | Path, tokenizer: Any | None = None) -> Iterator[SftRow]:
    """Read the rows of a file.

    Args:
        path: the file.
        tokenizer: of the model that will be trained; `None` leaves the vocabulary unchecked.

    Raises:
        UserError: the file is missing, is no such file, or was made with another vocabulary.
    """
    return iter(SftFile(path, None if tokenizer is None else tokenizer_digest(tokenizer)))
