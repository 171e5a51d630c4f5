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

from benchmarks.bill import SAMPLE, STORE, Bill
from benchmarks.full_trajectories import Played, Theatre
from docagent_rl.rollout.trajectory import filled_line
from docagent_rl.training.agent_loop.output import (
    TRAJECTORY,
    TRAJECTORY_DIGEST,
    TRAJECTORY_LINE,
    DocAgentLoopOutput,
    training_rows,
)
from docagent_rl.training.trainer.archive import turn_log_probs, write_lines
from docagent_rl.training.trainer.passes import Pass
from docagent_rl.training.trainer.trajectory_reader import TrajectoryReader, fetch_lines

PARTITION = "train"
WRITTEN: Mapping[str, Sequence[str]] = {
    "old_log_prob": ("log_probs", "entropy", "old_log_probs"),
    "ref_log_prob": ("ref_log_prob",),
    "values": ("values", "advantages", "returns"),
}
"""Fields that a pass adds to each row; the advantages are added before the updates."""
# the kind of each pass, which decides the fields that it fetches
READS = {
    "old_log_prob": Pass.INFER,
    "ref_log_prob": Pass.INFER,
    "values": Pass.INFER,
    "update_critic": Pass.UPDATE_CRITIC,
    "update_actor": Pass.UPDATE_POLICY,
}


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


def rows_of(played: Played) -> list[DocAgentLoopOutput]:
    """Return a trajectory's rows as the agent loop gives them to verl."""
    return training_rows(played.ledgers, played.trajectory, log_probs=True, steps=(1, 1))


FETCHED_AT_ONCE = 256 << 20
"""Bytes of rows that are fetched at once: few enough for the opponent's rows to fit into memory."""


@dataclass(slots=True)
class Traffic:
    """Puts rows into the queue and fetches them in each pass.

    Args:
        theatre: the trajectories.
        bill: time and bytes are added to it.
        compact: True for records and fields as in this package, False for the opponent's.
        room: bytes of rows that go through the queue, though always those of one trajectory;
            trajectories for which there is no room are assumed to take as much as the others.
    """

    theatre: Theatre
    bill: Bill
    compact: bool
    room: int
    _own: Bill = field(default_factory=Bill)
    _stored: set[int] = field(default_factory=set)
    _lengths: dict[str, int] = field(default_factory=dict)
    _sizes: dict[str, int] = field(default_factory=dict)
    _waiting: dict[str, dict[str, Any]] = field(default_factory=dict)
    _there: list[str] = field(default_factory=list)

    def warm_up(self) -> None:
        """Put one row into the queue and fetch it, so that imports and connections do not count."""
        self._put({"first": {"responses": torch.zeros(1)}}, Bill())
        self._fetch(["first"], Bill())
        tq.kv_clear(keys=["first"], partition_id=PARTITION)

    def each_row(self, number: int, place: int, images: Mapping[str, Any]) -> None:
        """Store a row unless there is no room; the rows of a trajectory are stored together.

        Args:
            number: the number of the trajectory.
            place: the number of the row in it.
            images: the row's fields of images.
        """
        if number not in self._stored and self._stored and sum(self._sizes.values()) > self.room:
            return
        self._stored.add(number)
        played = self.theatre.trajectories[number]
        output = rows_of(played)[place]
        fields, key = self._fields(played, output, dict(images)), f"row_{number}_{place}"
        self._lengths[key], self._sizes[key] = len(output.response_ids), size_of(fields)
        self._waiting[key] = fields
        if place + 1 == len(played.ledgers):  # verl stores the rows of a trajectory together
            self._put(self._waiting, self._own)
            self._waiting.clear()

    def passes(self) -> None:
        """Fetch the stored rows in each pass of the trainer, and write the fields that it adds."""
        for name in self.theatre.passes:
            for keys in self._portions():
                self._fetch(keys, self._own, READS[name])
                if name in WRITTEN:
                    self._put({key: self._written(name, key) for key in keys}, self._own)
        tq.kv_clear(keys=list(self._lengths), partition_id=PARTITION)
        weight, spent = len(self.theatre.trajectories) / len(self._stored), self._own.part(STORE)
        self.bill.add(STORE, weight * spent.seconds, weight * spent.nbytes)

    def _written(self, name: str, key: str) -> dict[str, torch.Tensor]:
        return {column: torch.zeros(self._lengths[key]) for column in WRITTEN[name]}

    def _portions(self) -> Iterator[list[str]]:
        portion: list[str] = []
        for key in self._sizes:
            portion.append(key)
            if sum(self._sizes[each] for each in portion) > FETCHED_AT_ONCE:
                yield portion
                portion = []
        if portion:
            yield portion

    def samples(self) -> None:
        """Handle the records of all trajectories as the driver does in a step."""
        rows: dict[str, dict[str, Any]] = {}
        for played in self.theatre.trajectories:
            for place, output in enumerate(rows_of(played)):
                key = f"{played.trajectory.uid}_{played.trajectory.number}_{place}"
                fields = self._fields(played, output, {})
                names = ("extra_fields", TRAJECTORY_DIGEST, TRAJECTORY_LINE, "responses")
                rows[key] = {name: fields[name] for name in names}
        self._put(rows, Bill())
        keys = list(rows)
        with tempfile.TemporaryDirectory() as folder, measured(self.bill, SAMPLE):
            (_lean if self.compact else _parsed)(keys, self.theatre.trajectories, Path(folder))
        tq.kv_clear(keys=keys, partition_id=PARTITION)

    def _fields(
        self, played: Played, output: DocAgentLoopOutput, images: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the fields of a row as verl's worker stores them."""
        fields = output.as_dict()
        fields.pop("multi_modal_data", None)
        if not self.compact:
            fields[TRAJECTORY_DIGEST], fields[TRAJECTORY_LINE] = "", b""
            fields["extra_fields"] = {
                **fields["extra_fields"],
                TRAJECTORY: played.trajectory.to_json(),
            }
        ids = torch.cat([fields["prompts"], fields["responses"]])
        depth = (
            () if self.theatre.resources.processor is None else (4,)
        )  # of Qwen2.5-VL's positions
        return fields | {
            "loss_mask": fields["response_mask"],
            "input_ids": ids,
            "position_ids": torch.zeros(*depth, len(ids), dtype=torch.int64),
            "multi_modal_inputs": images,
            "sample": json.dumps(played.trajectory.sample),
            "raw_prompt": played.trajectory.prompt,
            "uid": played.trajectory.uid,
        }

    def _put(self, rows: Mapping[str, dict[str, Any]], bill: Bill) -> None:
        data, keys = list_of_dict_to_tensordict(list(rows.values())), list(rows)
        with measured(bill, STORE):
            meta = tq.kv_batch_put(
                keys=keys, fields=data, tags=[{} for _ in keys], partition_id=PARTITION
            )
        self._there = list(meta.fields or ())
        bill.add(STORE, nbytes=sum(map(size_of, rows.values())))

    def _fetch(self, keys: Sequence[str], bill: Bill, reads: Pass | None = None) -> None:
        """Fetch whole rows; if they are compact, only the fields that a pass reads."""
        unread = reads.value if reads is not None and self.compact else ()
        names = [name for name in self._there if name not in unread]
        with measured(bill, STORE):
            data: TensorDict = tq.kv_batch_get(
                keys=list(keys), partition_id=PARTITION, select_fields=names
            )
        bill.add(STORE, nbytes=sum(size_of(value) for value in data.values()))


@contextmanager
def measured(bill: Bill, name: str) -> Iterator[None]:
    """Add the processor time of the `with` block, in this process and in the queue's, to a part."""
    actors = [p for p in psutil.Process().children(recursive=True) if _is_of_queue(p)]
    begun = _seconds(actors)
    with bill.timed(name):
        yield
    bill.add(name, _seconds(actors) - begun)


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


def _lean(keys: Sequence[str], trajectories: Sequence[Played], folder: Path) -> None:
    """Read digests and lines once for each trajectory and write the lines, as this package does."""
    batch = KVBatchMeta(partition_id=PARTITION, keys=list(keys), tags=[{} for _ in keys])
    found = TrajectoryReader().fetch(batch)
    digests = list({(each.uid, each.number): each for _, each in found}.values())
    lines = fetch_lines(digests, PARTITION)
    values = {
        f"{each.trajectory.uid}_{each.trajectory.number}": {
            row: np.zeros(own.sampled) for row, own in enumerate(each.ledgers)
        }
        for each in trajectories
    }
    named = {f"{each.uid}_{each.number}": each for each in digests}
    pieces = [
        (d, filled_line(lines[name], turn_log_probs(d, values[name]))) for name, d in named.items()
    ]
    write_lines(folder, 1, pieces)


def _parsed(keys: Sequence[str], trajectories: Sequence[Played], folder: Path) -> None:
    """Parse the record in each row, and write that of each trajectory, as the opponent does."""
    data = tq.kv_batch_get(keys=list(keys), partition_id=PARTITION, select_fields=["extra_fields"])
    extra = [getattr(value, "data", value) for value in list(data["extra_fields"])]
    samples = [json.loads(each[TRAJECTORY]) for each in extra]
    with (folder / "1.jsonl").open("w") as file:
        for sample in {(each["uid"], each["number"]): each for each in samples}.values():
            for turn in sample["turns"]:
                turn["trainer_log_probs"] = [0.0] * len(turn["token_ids"])
            file.write(json.dumps(sample) + "\n")
