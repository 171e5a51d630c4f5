"""The questions of a run: those of its data files that verl takes and the loop of this package plays."""

from __future__ import annotations

from dataclasses import dataclass

from omegaconf import DictConfig, OmegaConf

from docagent_rl.config import data_files
from docagent_rl.records.parquet import AGENT_NAME, read_table
from docagent_rl.records.record import Record

KEYS = ("train_files", "val_files")


@dataclass(frozen=True, slots=True)
class Questions:
    """The questions of `data.train_files` or `data.val_files`.

    Args:
        key: `train_files` or `val_files`.
        rows: questions in the files.
        records: those that may be played; without those of other agent loops.
        used: how many verl takes (`data.train_max_samples`, `data.val_max_samples`).
    """

    key: str
    rows: int
    records: tuple[Record, ...]
    used: int

    @property
    def validate(self) -> bool:
        """Whether they are played in validations."""
        return self.key == "val_files"


def run_questions(config: DictConfig, key: str) -> Questions:
    """Read them.

    Args:
        config: the composed configuration; its data files exist and are valid.
        key: `train_files` or `val_files`.
    """
    rows: list[tuple[str, str]] = []
    for file in data_files(config, key):
        columns = read_table(file, columns=["agent_name", "record"]).to_pydict()
        rows += zip(columns["agent_name"], columns["record"], strict=True)
    most = OmegaConf.select(config, f"data.{key.removesuffix('_files')}_max_samples") or -1
    used = min(most, len(rows)) if most > 0 else len(rows)
    # verl draws them at random when it shuffles
    taken = rows if OmegaConf.select(config, "data.shuffle") else rows[:used]
    records = tuple(Record.from_json(text) for agent, text in taken if agent == AGENT_NAME)
    return Questions(key, len(rows), records, used)
