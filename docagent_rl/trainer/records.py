"""The records of the sessions that the rows of a batch belong to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import transfer_queue as tq
from transfer_queue import KVBatchMeta

from docagent_rl.rollout.output import TRAJECTORY
from docagent_rl.rollout.trajectory import Trajectory


def fetch_sessions(batch: KVBatchMeta) -> list[tuple[str, Trajectory]]:
    """The record of each row's session, by key; rows of other agent loops have none."""
    data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=["extra_fields"])
    found, by_session = [], {}
    for key, value in zip(batch.keys, list(data["extra_fields"]), strict=True):
        fields = getattr(value, "data", value)
        line = fields.get("reward_extra_info", {}).get(TRAJECTORY) if isinstance(fields, dict) else None
        if line is not None:
            # the rows of a session carry the same record: one object for all of them
            session = key.rsplit("_", 1)[0]
            if session not in by_session:
                by_session[session] = Trajectory.from_dict(json.loads(line))
            found.append((key, by_session[session]))
    return found


def add_columns(infos: dict[str, list[Any]], trajectories: Sequence[Trajectory]) -> None:
    """Columns of the environment's numbers; masked sessions hold `None`, which verl leaves out."""
    masked = [t.masked for t in trajectories]
    infos["reward"] = [None if m else r for m, r in zip(masked, infos["reward"], strict=True)]
    names = {name: None for t in trajectories for name in t.metrics}
    for name in names:
        infos[name] = [None if t.masked else t.metrics.get(name) for t in trajectories]
