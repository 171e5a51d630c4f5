"""Reading the files of a run in batches of rows, after they were compared with its seal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import pyarrow as pa

from docagent_rl.base.errors import UserError
from docagent_rl.checkpoints.file_status import SCORES, VERDICTS, whole_files
from docagent_rl.checkpoints.step_files import StepFile, step_file
from docagent_rl.lab.viewer.credit import mean_advantages
from docagent_rl.lab.viewer.folder import ViewedRun
from docagent_rl.lab.viewer.index import parsed_line
from docagent_rl.lab.viewer.steps import split_of
from docagent_rl.rollout.credit import credit_table
from docagent_rl.runs.columns import RunTable, schema_of
from docagent_rl.runs.rows import (
    Row,
    row_of_trajectory,
    score_rows,
    term_rows,
    token_rows,
    turn_rows,
)

_BATCH = 256
"""Rows of a batch."""
_GROWING = "trajectories.jsonl"
"""The file of a run outside the trainer; a resumed run repeats trajectories that failed in it."""
_BAD = (AttributeError, KeyError, TypeError, ValueError, OverflowError)
"""Errors that a line with other fields causes, in our code or in Arrow's."""

Key = tuple[str, int]
"""A group, or a question, and the number of a trajectory in it."""
RowsOf = Callable[[Mapping[str, Any]], Iterable[Row]]


@dataclass(frozen=True)
class RunPart:
    """A folder of trajectories: a run, or the run of one condition of a probe.

    Its methods raise a `UserError` that names a file which is damaged, missing or unsealed, and the
    line that cannot be read.
    """

    run: str
    """Name of the run."""
    name: str
    """Name of the condition; empty if the run is no probe."""
    folder: ViewedRun
    unsealed: bool
    """True if unsealed files are accepted."""

    def batches(self, table: RunTable) -> Iterator[pa.RecordBatch]:
        """Yield a table in batches; only one of them is in memory at a time."""
        match table:
            case RunTable.TRAJECTORIES:
                yield from self._trajectories()
            case RunTable.TURNS:
                yield from self._of_trajectories(table, turn_rows)
            case RunTable.TERMS:
                yield from self._of_trajectories(table, self._terms)
            case RunTable.TOKENS:
                yield from self._of_trajectories(table, token_rows)
            case RunTable.METRICS:
                yield from self._metrics()
            case RunTable.CREDIT:
                yield from self._credit()
            case RunTable.SCORES:
                for file in self._whole(SCORES):
                    yield from self._converted(table, file, score_rows)

    @cached_property
    def trajectory_files(self) -> list[Path]:
        """The files of trajectories: of training in the order of steps, then of validation."""
        grown = self._whole(_GROWING)
        steps = self._step_files("trajectories", ".jsonl")
        return [*grown, *(each.path for each in steps)]

    @cached_property
    def credit_files(self) -> list[StepFile]:
        """The files of credit, in the order of steps."""
        return self._step_files("credit", ".parquet")

    def _step_files(self, folder: str, suffix: str) -> list[StepFile]:
        paths = self._whole(f"{folder}/*{suffix}")
        return sorted(found for path in paths if (found := step_file(path, suffix)))

    def _whole(self, pattern: str) -> list[Path]:
        return whole_files(self.folder.path, pattern, unsealed=self.unsealed)

    def _trajectories(self) -> Iterator[pa.RecordBatch]:
        dropped_by = self._dropped_by()
        for file in self.trajectory_files:
            rows = partial(_whole_row, advantages=self._advantages(file), dropped_by=dropped_by)
            yield from self._converted(RunTable.TRAJECTORIES, file, rows)

    def _advantages(self, file: Path) -> Mapping[Key, float | None]:
        """Return the mean advantages of the trajectories in a file, which are those of a step."""
        found = step_file(file, ".jsonl")
        if found is None:
            return {}
        credited = [each for each in self.credit_files if each[:2] == found[:2]]
        return mean_advantages(credited[0].path) if credited else {}

    def _of_trajectories(self, table: RunTable, rows: RowsOf) -> Iterator[pa.RecordBatch]:
        for file in self.trajectory_files:
            yield from self._converted(table, file, rows)

    def _terms(self, trajectory: Mapping[str, Any]) -> Iterable[Row]:
        reward = self.folder.reward
        return term_rows(trajectory, {} if reward is None else reward.weights)

    def _dropped_by(self) -> dict[Key, str | None]:
        """Return the filter that dropped each trajectory of a collection; `None` if none did."""
        found: dict[Key, str | None] = {}
        for file in self._whole(VERDICTS):
            for verdict in _read_lines(file, lambda line: [dict(line)]):
                found[verdict["question_id"], verdict["number"]] = verdict["dropped_by"]
        return found

    def _metrics(self) -> Iterator[pa.RecordBatch]:
        for own, step, path in self._step_files("metrics", ".json"):
            try:
                rows = [
                    {"split": split_of(name, own), "step": step, "metric": name, "value": value}
                    for name, value in json.loads(path.read_bytes()).items()
                ]
                batch = self._batch(RunTable.METRICS, rows)
            except (OSError, *_BAD) as error:
                raise UserError(f"{path} does not contain numbers of a step: {error}") from error
            yield batch

    def _credit(self) -> Iterator[pa.RecordBatch]:
        schema = schema_of(RunTable.CREDIT)
        for split, step, path in self.credit_files:
            estimator, stored = credit_table(path)
            constant = {**self._named, "split": split, "step": step, "estimator": estimator}
            lists = {name: stored.column(name) for name in stored.column_names}
            lists["number"] = lists.pop("trajectory")
            columns = [
                lists[field.name]
                if field.name in lists
                else pa.repeat(pa.scalar(constant.get(field.name), field.type), stored.num_rows)
                for field in schema
            ]
            yield from pa.Table.from_arrays(columns, schema=schema).to_batches()

    def _converted(self, table: RunTable, file: Path, rows: RowsOf) -> Iterator[pa.RecordBatch]:
        found = _read_lines(file, rows)
        while some := list(islice(found, _BATCH)):
            try:
                batch = self._batch(table, some)
            except _BAD as error:
                raise UserError(f"{file} has a value of another type: {error}") from error
            yield batch

    @property
    def _named(self) -> Row:
        return {"run": self.run, "part": self.name}

    def _batch(self, table: RunTable, rows: Iterable[Row]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist(
            [{**self._named, **row} for row in rows], schema_of(table)
        )


def _whole_row(
    trajectory: Mapping[str, Any],
    *,
    advantages: Mapping[Key, float | None],
    dropped_by: Mapping[Key, str | None],
) -> list[Row]:
    """Return the row of a trajectory with what other files say about it."""
    row = row_of_trajectory(trajectory)
    number = row["number"]
    of_credit = advantages.get((row["uid"], number))
    of_filters = dropped_by.get((row["question_id"] or row["uid"], number))
    return [{**row, "advantage": of_credit, "dropped_by": of_filters}]


def _read_lines(file: Path, rows: RowsOf) -> Iterator[Row]:
    """Yield the rows of each line of a file, except of trajectories that were played again."""
    repeated = _repeated(file) if file.name == _GROWING else frozenset()
    for number, line in _lines(file):
        if number in repeated:
            continue
        try:
            found = list(rows(parsed_line(line)))
        except _BAD as error:
            raise UserError(f"{file}, line {number}: it cannot be read: {error!r}") from error
        yield from found


def _repeated(file: Path) -> frozenset[int]:
    """Return the numbers of lines whose trajectory has a later line, which is the one that
    counts.
    """
    numbers: set[int] = set()
    last: dict[Key, int] = {}
    for number, line in _lines(file):
        try:
            found = parsed_line(line)
            key = str(found["uid"]), int(found["number"])
        except _BAD:
            continue  # reading the line reports it
        if key in last:
            numbers.add(last[key])
        last[key] = number
    return frozenset(numbers)


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file with their numbers, from 1."""
    with file.open("rb") as lines:
        # without an incomplete last line, which is still being written
        whole = takewhile(lambda line: line.endswith(b"\n"), lines)
        yield from ((number, line) for number, line in enumerate(whole, 1) if line.strip())
