"""Has a step written while the next one goes on: its trajectories, and what their tokens were credited
with.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from transfer_queue import KVBatchMeta

from docagent_rl.config import DocAgentConfig
from docagent_rl.rollout.credit import CreditRow, write_credit
from docagent_rl.rollout.digest import TrajectoryDigest
from docagent_rl.rollout.trajectory import TrajectoryLine
from docagent_rl.training.tensors import partition
from docagent_rl.training.trainer.accounts import Accounts
from docagent_rl.training.trainer.archive import line_with_log_probs, write_lines
from docagent_rl.training.trainer.background import Background
from docagent_rl.training.trainer.columns import TURN, SampledColumns
from docagent_rl.training.trainer.credit import ENTROPY, REFERENCE, Likeness, credit_rows, with_optional
from docagent_rl.training.trainer.summary import mask_reasons, summarise, turn_report, unsought_doubt
from docagent_rl.training.trainer.trajectory_reader import TrajectoryReader, fetch_lines, trajectory_of
from docagent_rl.training.trainer.verl_trainer import VerlTrainer

logger = logging.getLogger(__name__)


class ArchivingMixin(VerlTrainer):
    """Writes what a step was; part of `DocAgentTrainerMixin`."""

    docagent: DocAgentConfig
    _reader: TrajectoryReader
    _accounts: Accounts
    _credited: Sequence[CreditRow] = ()
    _likeness: Likeness | None = None

    if TYPE_CHECKING:

        @property
        def run_dir(self) -> Path:
            """Where the run's trajectories go."""
            ...

        @property
        def _files(self) -> Background: ...

        def _columns(
            self, keys: Sequence[str], partition_id: str, names: Sequence[str]
        ) -> SampledColumns: ...

    def _archive(self, batch: KVBatchMeta) -> dict[str, float]:
        """Have the trajectories of a step written; their numbers."""
        keys = [k for k, tag in zip(batch.keys, batch.tags, strict=True) if not tag.get("is_padding", False)]
        trajectories = self._reader.fetch(batch.select_keys(keys))
        digests = list({(t.uid, t.number): t for _, t in trajectories}.values())
        numbers, log_probs = self._read_rows(partition(batch), trajectories)
        numbers.update(summarise(digests))
        if doubt := unsought_doubt(numbers):
            logger.warning("step %d: %s", self.global_steps, doubt)
        for reason, count in mask_reasons(digests).items():
            logger.warning("step %d: %d trajectory(s) masked, %s", self.global_steps, count, reason)
        self._write(digests, fetch_lines(digests, partition(batch)), log_probs)
        numbers.update(self._accounts.close_step(keys, digests))
        self._reader.forget()
        return numbers

    def _write(
        self,
        trajectories: Sequence[TrajectoryDigest],
        lines: Mapping[str, TrajectoryLine],
        log_probs: Mapping[str, Mapping[int, NDArray[np.float64]]],
    ) -> None:
        """Write the step's trajectories while the next step goes on."""
        run_dir, step = self.run_dir, self.global_steps
        names = [f"{trajectory.uid}_{trajectory.number}" for trajectory in trajectories]
        filled = [
            (trajectory, line_with_log_probs(trajectory, lines[name], log_probs.get(name)))
            for trajectory, name in zip(trajectories, names, strict=True)
        ]
        credited, self._credited = self._credited, ()
        estimator = str(self.config.algorithm.adv_estimator) if credited else ""

        def write() -> None:
            write_lines(run_dir, step, filled)
            if credited:
                write_credit(run_dir, step, estimator, credited)

        self._files.start(write)

    @property
    def _bypasses_log_probs(self) -> bool:
        """Whether verl takes the rollout's log-probs for the trainer's, which it does not compute."""
        correction = self.config.algorithm.get("rollout_correction", None)
        return correction is not None and bool(correction.get("bypass_mode", False))

    def _read_rows(
        self, partition_id: str, trajectories: list[tuple[str, TrajectoryDigest]]
    ) -> tuple[dict[str, float], Mapping[str, Mapping[int, NDArray[np.float64]]]]:
        """The turns' numbers, and the trainer's log-probs of the rows that count, by trajectory and row."""
        log_probs: dict[str, dict[int, NDArray[np.float64]]] = defaultdict(dict)
        rows = [(k, t) for k, t in trajectories if not t.masked]
        if not rows:
            return {}, log_probs
        fields = ["rm_scores", "advantages", "returns"]
        if self.use_critic:
            fields.append("values")
        if not self._bypasses_log_probs:
            fields.append("old_log_probs")
        keys = [key for key, _ in rows]
        columns = self._columns(keys, partition_id, fields)
        if not self._bypasses_log_probs:
            for key, values in zip(keys, columns.split("old_log_probs"), strict=True):
                log_probs[trajectory_of(key)][int(key.rpartition("_")[2])] = values.double().numpy()
        if self.docagent.credit:
            optional = [*([] if self._bypasses_log_probs else [ENTROPY])]
            optional += [REFERENCE] if self.use_reference_policy else []
            seen, self._likeness = self._likeness, None
            self._credited = credit_rows(keys, with_optional(columns, keys, partition_id, optional), seen)
        padded = {name: columns.padded(name, -1 if name == TURN else 0) for name in (TURN, *fields)}
        return turn_report(keys, [trajectory for _, trajectory in rows], padded), log_probs
