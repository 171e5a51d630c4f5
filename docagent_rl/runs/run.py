"""A run of any kind as tables, which are read when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from docagent_rl.base.errors import UserError
from docagent_rl.lab.agents.run_folder import RunFolder
from docagent_rl.lab.eval.choices import ProbeCondition
from docagent_rl.lab.viewer.folder import RESCORED, ViewedRun
from docagent_rl.runs.columns import RunTable, schema_of
from docagent_rl.runs.reading import RunPart


class RunKind(StrEnum):
    """The kind of a run."""

    TRAINING = "training"
    EVALUATION = "evaluation"
    """Made by `docagent-rl eval`, or by `ask --out`."""
    COLLECTION = "collection"
    PROBE = "probe"
    """The runs of several conditions, each of which is a part."""
    RESCORING = "rescoring"


@dataclass(frozen=True)
class RunFrames:
    """A run; create one with `open`.

    Each table is read from the files of the run when it is first used, and kept. A table that a run
    of its kind does not have, such as the credit of an evaluation, has no rows. `COLUMNS`
    says what the columns mean, and so does the metadata of a table's fields.

    Reading a table raises a `UserError` that names the file if one of its files is damaged, missing
    or not sealed, as `docagent-rl check` reports it.
    """

    path: Path
    kind: RunKind
    parts: tuple[RunPart, ...]
    """The conditions of a probe; one part without a name in any other run."""

    @cached_property
    def trajectories(self) -> pa.Table:
        """A row per trajectory: question, answer, outcome, reward, counts."""
        return self._table(RunTable.TRAJECTORIES)

    @cached_property
    def turns(self) -> pa.Table:
        """A row per turn: text, action, effect, pages, reward, counts."""
        return self._table(RunTable.TURNS)

    @cached_property
    def terms(self) -> pa.Table:
        """A row per reward term of a trajectory or of one of its turns."""
        return self._table(RunTable.TERMS)

    @cached_property
    def tokens(self) -> pa.Table:
        """A row per turn, with lists of the sampled ids and their log-probs."""
        return self._table(RunTable.TOKENS)

    @cached_property
    def metrics(self) -> pa.Table:
        """A row per number of a step."""
        return self._table(RunTable.METRICS)

    @cached_property
    def credit(self) -> pa.Table:
        """A row per training row, with lists of advantages, returns, values, entropy and KL."""
        return self._table(RunTable.CREDIT)

    @cached_property
    def scores(self) -> pa.Table:
        """A row per number with which `docagent-rl eval`, `probe` or `report` scored a
        trajectory.
        """
        return self._table(RunTable.SCORES)

    def read(self, table: RunTable | str) -> pa.RecordBatchReader:
        """Return a reader of a table in batches, for tables that do not fit into memory.

        It can be read once. DuckDB and `pyarrow.dataset.write_dataset` take it as it is.

        Raises:
            UserError: there is no such table; raised by the reader: a file is damaged, missing or
                not sealed.
        """
        try:
            wanted = RunTable(table)
        except ValueError:
            names = ", ".join(RunTable)
            raise UserError(f"{table!r} is not a table of a run: use one of {names}") from None
        return pa.RecordBatchReader.from_batches(schema_of(wanted), self._batches(wanted))

    def _table(self, table: RunTable) -> pa.Table:
        return pa.Table.from_batches(self._batches(table), schema_of(table))

    def _batches(self, table: RunTable) -> Iterator[pa.RecordBatch]:
        for part in self.parts:
            yield from part.batches(table)


def open(path: str | Path, *, unsealed: bool = False) -> RunFrames:
    """Open the folder of a run: of the trainer, or of `eval`, `ask`, `collect`, `probe`, `rescore`.

    Only its kind is determined; files are read when a table is used.

    Args:
        path: the folder.
        unsealed: accept files that nothing shows to be whole, such as those that a run is writing
            now. Damaged files are refused in any case.

    Raises:
        UserError: the folder is not a run, or its description is damaged.
    """
    folder = Path(path).resolve()
    conditions = [
        condition.value
        for condition in ProbeCondition
        if RunFolder(folder / condition.value).trajectories_file.is_file()
    ]
    if conditions and not RunFolder(folder).manifest_file.exists():
        parts = [
            RunPart(folder.name, name, ViewedRun(folder / name), unsealed) for name in conditions
        ]
        return RunFrames(folder, RunKind.PROBE, tuple(parts))
    viewed = ViewedRun(folder)
    part = RunPart(viewed.path.name, "", viewed, unsealed)
    return RunFrames(viewed.path, _kind_of(viewed), (part,))


def _kind_of(run: ViewedRun) -> RunKind:
    """Return the kind of a run that is no probe."""
    if (run.path / RESCORED).is_file():
        return RunKind.RESCORING
    if run.kind == "training":
        return RunKind.TRAINING
    # it imports the models of judges, which take seconds
    from docagent_rl.lab.collect.collection import KIND

    collected = RunFolder(run.path).manifest().get("kind") == KIND
    return RunKind.COLLECTION if collected else RunKind.EVALUATION
