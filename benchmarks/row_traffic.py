"""Move rows of trajectories through the real TransferQueue, and handle records in the driver."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import ray
import torch
import transfer_queue as tq
from omegaconf import OmegaConf
from tensordict import NonTensorData, NonTensorStack, TensorDict
from transfer_queue import KVBatchMeta
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from benchmarks.costs import RECORDS, STORE, StepCosts
from benchmarks.full_trajectories import MadeTrajectory, TrajectoryBatch
from docagent_rl.lab.sft.dataset import position_ids
from docagent_rl.rollout.patches import GRIDS
from docagent_rl.rollout.trajectory import filled_line
from docagent_rl.training.agent_loop.output import (
    TRAJECTORY,
    TRAJECTORY_DIGEST,
    TRAJECTORY_LINE,
    DocAgentLoopOutput,
    training_rows,
)
from docagent_rl.training.compact_positions import compact
from docagent_rl.training.trainer.archive import turn_log_probs, write_lines
from docagent_rl.training.trainer.passes import Pass
from docagent_rl.training.trainer.trajectory_reader import TrajectoryReader, distinct, fetch_lines

PARTITION = "train"
WRITTEN: Mapping[str, Sequence[str]] = {
    "old_log_prob": ("log_probs", "entropy", "old_log_probs"),
    "ref_log_prob": ("ref_log_prob",),
    "values": ("values", "advantages", "returns"),
}
"""Fields that a pass adds to each row; the advantages are added before the updates."""
KIND_OF_PASS = {
    "old_log_prob": Pass.INFER,
    "ref_log_prob": Pass.INFER,
    "values": Pass.INFER,
    "update_critic": Pass.UPDATE_CRITIC,
    "update_actor": Pass.UPDATE_POLICY,
}
"""The kind of each pass, which decides the fields that it fetches."""


@contextmanager
def queue() -> Iterator[None]:
    """Start Ray and a TransferQueue, and stop them at the end of the `with` block."""
    ray.init(
        address="local",
        num_cpus=4,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
    )
    try:
        tq.init(OmegaConf.create({"backend": {"SimpleStorage": {"num_data_storage_units": 1}}}))
        yield
    finally:
        tq.close()
        ray.shutdown()


def rows_of(made: MadeTrajectory) -> list[DocAgentLoopOutput]:
    """Return a trajectory's rows as the agent loop gives them to verl."""
    return training_rows(made.ledgers, made.trajectory, log_probs=True, steps=(1, 1))


FETCHED_AT_ONCE = 256 << 20
"""Bytes of rows that are fetched at once: few enough for the opponent's rows to fit into memory."""


@dataclass(slots=True)
class RowTraffic:
    """Puts rows into the queue and fetches them in each pass.

    Args:
        batch: the trajectories.
        costs: time and bytes are added to it.
        compact: True for records and fields as in this package, False for the opponent's.
        max_bytes: bytes of rows that go through the queue, though always those of one trajectory;
            the other trajectories are assumed to take as much as these.
    """

    batch: TrajectoryBatch
    costs: StepCosts
    compact: bool
    max_bytes: int
    _measured: StepCosts = field(default_factory=StepCosts)
    """Costs of the stored trajectories alone."""
    _stored: set[int] = field(default_factory=set)
    """Numbers of the trajectories whose rows are stored."""
    _lengths: dict[str, int] = field(default_factory=dict)
    """The number of response tokens of each row, by key."""
    _sizes: dict[str, int] = field(default_factory=dict)
    """The bytes of each row, by key."""
    _unsent: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Rows of a trajectory whose last row is not there yet."""
    _field_names: list[str] = field(default_factory=list)
    """All fields of the rows in the queue."""

    def warm_up(self) -> None:
        """Put one row into the queue and fetch it, so that imports and connections do not count."""
        self._put({"first": {"responses": torch.zeros(1)}}, StepCosts())
        self._fetch(["first"], StepCosts())
        tq.kv_clear(keys=["first"], partition_id=PARTITION)

    def store_row(self, number: int, row_number: int, images: Mapping[str, Any]) -> None:
        """Store a row, unless `max_bytes` of other trajectories are stored already.

        Args:
            number: the number of the trajectory.
            row_number: the number of the row in it.
            images: the row's fields of images.
        """
        is_full = bool(self._stored) and sum(self._sizes.values()) > self.max_bytes
        if is_full and number not in self._stored:
            return
        self._stored.add(number)

        made = self.batch.trajectories[number]
        output = rows_of(made)[row_number]
        fields = self._fields(made, output, dict(images))
        key = f"row_{number}_{row_number}"
        self._lengths[key] = len(output.response_ids)
        self._sizes[key] = size_of(fields)
        self._unsent[key] = fields
        if row_number + 1 == len(made.ledgers):  # verl stores the rows of a trajectory together
            self._put(self._unsent, self._measured)
            self._unsent.clear()

    def passes(self) -> None:
        """Fetch the stored rows in each pass of the trainer, and write the fields that it adds."""
        for name in self.batch.passes:
            for keys in self._portions():
                self._fetch(keys, self._measured, KIND_OF_PASS[name])
                if name in WRITTEN:
                    self._put({key: self._written(name, key) for key in keys}, self._measured)
        tq.kv_clear(keys=list(self._lengths), partition_id=PARTITION)

        measured_costs = self._measured.part(STORE)
        factor = len(self.batch.trajectories) / len(self._stored)
        self.costs.add(STORE, factor * measured_costs.seconds, factor * measured_costs.nbytes)

    def _written(self, name: str, key: str) -> dict[str, torch.Tensor]:
        return {column: torch.zeros(self._lengths[key]) for column in WRITTEN[name]}

    def _portions(self) -> Iterator[list[str]]:
        """Yield the keys of the stored rows, about `FETCHED_AT_ONCE` bytes at a time."""
        portion: list[str] = []
        for key in self._sizes:
            portion.append(key)
            if sum(self._sizes[each] for each in portion) > FETCHED_AT_ONCE:
                yield portion
                portion = []
        if portion:
            yield portion

    def records(self) -> None:
        """Handle the records of all trajectories as the driver does in a step."""
        names = ("extra_fields", TRAJECTORY_DIGEST, TRAJECTORY_LINE, "responses")
        rows: dict[str, dict[str, Any]] = {}
        for made in self.batch.trajectories:
            trajectory = made.trajectory
            for row_number, output in enumerate(rows_of(made)):
                fields = self._fields(made, output, {})
                key = f"{trajectory.uid}_{trajectory.number}_{row_number}"
                rows[key] = {name: fields[name] for name in names}
        self._put(rows, StepCosts())

        keys = list(rows)
        write_records = _write_as_package if self.compact else _write_as_opponent
        with tempfile.TemporaryDirectory() as folder, measured(self.costs, RECORDS):
            write_records(keys, self.batch.trajectories, Path(folder))
        tq.kv_clear(keys=keys, partition_id=PARTITION)

    def _fields(
        self, made: MadeTrajectory, output: DocAgentLoopOutput, images: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the fields of a row as verl's worker stores them."""
        fields = output.as_dict()
        fields.pop("multi_modal_data", None)
        if not self.compact:
            fields[TRAJECTORY_DIGEST] = ""
            fields[TRAJECTORY_LINE] = b""
            fields["extra_fields"] = {
                **fields["extra_fields"],
                TRAJECTORY: made.trajectory.to_json(),
            }
        ids = torch.cat([fields["prompts"], fields["responses"]])
        # a text model has one position id for each token
        rotary = self.batch.resources.processor if GRIDS in images else None
        positions = position_ids(ids, images, rotary)
        return fields | {
            "loss_mask": fields["response_mask"],
            "input_ids": ids,
            "position_ids": compact(positions) if self.compact else positions,
            "multi_modal_inputs": images,
            "sample": json.dumps(made.trajectory.sample),
            "raw_prompt": made.trajectory.prompt,
            "uid": made.trajectory.uid,
        }

    def _put(self, rows: Mapping[str, dict[str, Any]], costs: StepCosts) -> None:
        data = list_of_dict_to_tensordict(list(rows.values()))
        keys = list(rows)
        with measured(costs, STORE):
            meta = tq.kv_batch_put(
                keys=keys, fields=data, tags=[{} for _ in keys], partition_id=PARTITION
            )
        self._field_names = list(meta.fields or ())
        costs.add(STORE, nbytes=sum(map(size_of, rows.values())))

    def _fetch(self, keys: Sequence[str], costs: StepCosts, reads: Pass | None = None) -> None:
        """Fetch whole rows; if they are compact, only the fields that a pass reads."""
        unread = reads.value if reads is not None and self.compact else ()
        names = [name for name in self._field_names if name not in unread]
        with measured(costs, STORE):
            data: TensorDict = tq.kv_batch_get(
                keys=list(keys), partition_id=PARTITION, select_fields=names
            )
        costs.add(STORE, nbytes=sum(size_of(value) for value in data.values()))


@contextmanager
def measured(costs: StepCosts, name: str) -> Iterator[None]:
    """Add the processor time of the `with` block, in this process and in the queue's, to a part."""
    actors = [p for p in psutil.Process().children(recursive=True) if _is_of_queue(p)]
    begun = _seconds(actors)
    with costs.timed(name):
        yield
    costs.add(name, _seconds(actors) - begun)


def _is_of_queue(process: psutil.Process) -> bool:
    try:
        return process.name().startswith(("ray::Simple", "ray::Transfer"))
    except psutil.NoSuchProcess:
        return False


def _seconds(processes: Sequence[psutil.Process]) -> float:
    times = [process.cpu_times() for process in processes]
    return sum(each.user + each.system for each in times)


def size_of(value: Any) -> int:
    """Return the bytes that a field holds."""
    if isinstance(value, NonTensorStack):
        return sum(size_of(getattr(each, "data", each)) for each in value.tolist())
    data = value.data if isinstance(value, NonTensorData) else value
    if isinstance(data, torch.Tensor):
        return data.values().nbytes if data.is_nested else data.nbytes
    if isinstance(data, Mapping):
        return sum(size_of(each) for each in data.values())
    if isinstance(data, (list, tuple)):
        return sum(size_of(each) for each in data)
    if isinstance(data, (str, bytes)):
        return len(data)
    return 8


def _write_as_package(
    keys: Sequence[str], trajectories: Sequence[MadeTrajectory], folder: Path
) -> None:
    """Read digests and lines once for each trajectory and write the lines, as this package does."""
    batch = KVBatchMeta(partition_id=PARTITION, keys=list(keys), tags=[{} for _ in keys])
    digests = distinct(TrajectoryReader().fetch(batch))
    lines = fetch_lines(digests, PARTITION)

    log_probs_by_row = {}
    for made in trajectories:
        name = f"{made.trajectory.uid}_{made.trajectory.number}"
        log_probs_by_row[name] = {
            row: np.zeros(ledger.sampled) for row, ledger in enumerate(made.ledgers)
        }

    filled = []
    for digest in digests:
        name = f"{digest.uid}_{digest.number}"
        log_probs = turn_log_probs(digest, log_probs_by_row[name])
        filled.append((digest, filled_line(lines[name], log_probs)))
    write_lines(folder, 1, filled)


def _write_as_opponent(
    keys: Sequence[str], trajectories: Sequence[MadeTrajectory], folder: Path
) -> None:
    """Parse the record in each row, and write that of each trajectory, as the opponent does."""
    data = tq.kv_batch_get(keys=list(keys), partition_id=PARTITION, select_fields=["extra_fields"])
    extra = [getattr(value, "data", value) for value in list(data["extra_fields"])]
    records = [json.loads(each[TRAJECTORY]) for each in extra]
    # the record of a trajectory is in each of its rows, but is written once
    by_trajectory = {(record["uid"], record["number"]): record for record in records}

    with (folder / "1.jsonl").open("w") as file:
        for record in by_trajectory.values():
            for turn in record["turns"]:
                turn["trainer_log_probs"] = [0.0] * len(turn["token_ids"])
            file.write(json.dumps(record) + "\n")
