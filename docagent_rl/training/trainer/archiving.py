"""Write a step's trajectories and the credit of their tokens while the next step is running."""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from transfer_queue import KVBatchMeta

from docagent_rl.advantages import Advantages
from docagent_rl.advantages.similarity import cosines
from docagent_rl.rollout.credit import SIMILARITIES, CreditRow, write_credit
from docagent_rl.rollout.digest import TrajectoryDigest
from docagent_rl.rollout.trajectory import filled_line
from docagent_rl.training.tensors import TURN, partition
from docagent_rl.training.trainer.accounts import Accounts
from docagent_rl.training.trainer.archive import turn_log_probs, write_lines
from docagent_rl.training.trainer.base import TrainerPart
from docagent_rl.training.trainer.columns import SampledColumns
from docagent_rl.training.trainer.summary import (
    mask_reasons,
    search_doubt,
    summarise,
    turn_report,
    unsought_doubt,
)
from docagent_rl.training.trainer.trajectory_reader import (
    TrajectoryReader,
    distinct,
    fetch_lines,
    trajectory_of,
)

ENTROPY = "entropy"
REFERENCE = "ref_log_prob"
"""Fields of verl that only exist in some runs."""
_POLICY = "old_log_probs"
_COPIED = ("advantages", "returns", "values", ENTROPY)
"""Columns that the credit file has as they are."""

logger = logging.getLogger(__name__)


GroupSimilarities = Mapping[tuple[str, int], NDArray[np.float32]]
"""Cosine similarities of a trajectory with those of its group in the order of their numbers, by
group and number of the trajectory.
"""


def group_similarities(keys: Sequence[str], embeddings: Tensor) -> GroupSimilarities:
    """Return the similarities of the trajectories in each group, as estimators compute them.

    `embeddings` (s, d) has one vector per trajectory, in the order in which they first occur in the
    keys of the rows.
    """
    # each trajectory, with the number of its vector
    vectors: dict[tuple[str, int], int] = {}
    groups: dict[str, set[int]] = defaultdict(set)
    for key in keys:
        uid, trajectory, _ = key.rsplit("_", 2)
        vectors.setdefault((uid, int(trajectory)), len(vectors))
        groups[uid].add(int(trajectory))

    found: dict[tuple[str, int], NDArray[np.float32]] = {}
    for uid, trajectories in groups.items():
        names = [(uid, trajectory) for trajectory in sorted(trajectories)]
        of_group = embeddings[[vectors[name] for name in names]]
        similar, _ = cosines(of_group.detach().float()[None])
        for name, row in zip(names, similar[0], strict=True):
            found[name] = row.numpy().astype(np.float32)
    return found


def credit_rows(
    keys: Sequence[str], columns: SampledColumns, similarities: GroupSimilarities | None = None
) -> list[CreditRow]:
    """Return rows for the credit file, with `advantages` and those other columns that exist.

    The KL of a token is estimated from its sample as the policy's log-prob minus the reference's
    (k1). The similarities of a trajectory are in its first row.
    """
    by_name = {name: columns.split(name) for name in _COPIED if name in columns.values}
    if _POLICY in columns.values and REFERENCE in columns.values:
        pairs = zip(columns.split(_POLICY), columns.split(REFERENCE), strict=True)
        by_name["kl"] = [policy - reference for policy, reference in pairs]

    rows = []
    for number, key in enumerate(keys):
        uid, trajectory, index = key.rsplit("_", 2)
        name = (uid, int(trajectory))
        lists = {
            column: values[number].float().numpy().astype(np.float32)
            for column, values in by_name.items()
        }
        if similarities is not None and index == "0" and name in similarities:
            lists[SIMILARITIES] = similarities[name]
        rows.append(CreditRow(*name, int(index), lists))
    return rows


def with_optional(
    columns: SampledColumns, keys: Sequence[str], partition_id: str, names: Sequence[str]
) -> SampledColumns:
    """Return columns with further fields from the queue; fields that cannot be read are omitted."""
    for name in names:
        try:
            columns = columns.fetching(keys, partition_id, [name])
        except (KeyError, RuntimeError, ValueError) as error:
            logger.warning("the credit of this step is stored without %s: %s", name, error)
    return columns


class ArchivingMixin(TrainerPart):
    """Writes the records of a step; part of `DocAgentTrainerMixin`."""

    _reader: TrajectoryReader
    _accounts: Accounts
    _credited: Sequence[CreditRow] = ()
    """The credit of the step that has not been written."""
    _similarities: GroupSimilarities | None = None
    """The similarities of the step's trajectories, if its estimator compares them."""

    @cached_property
    def _estimated(self) -> dict[tuple[str, ...], SampledColumns]:
        """Advantages of rows since the last archive."""
        return {}

    def _keep(
        self, batch: KVBatchMeta, columns: SampledColumns, token_rewards: Tensor, result: Advantages
    ) -> None:
        """Keep columns for the archive, which would otherwise fetch them from the queue again."""
        # with a KL penalty these are not the environment's rewards
        if not self.config.algorithm.use_kl_in_reward:
            kind = token_rewards.dtype
            self._estimated[tuple(batch.keys)] = columns.having(
                rm_scores=columns.gathered(token_rewards),
                advantages=result.advantages.to(kind),
                returns=result.returns.to(kind),
            )

    def _columns(
        self, keys: Sequence[str], partition_id: str, names: Sequence[str]
    ) -> SampledColumns:
        """Return fields of rows at their sampled tokens, reusing columns from the step's
        estimates.
        """
        estimated = self._estimated
        self._estimated = {}
        estimated_keys = [key for keys_of_batch in estimated for key in keys_of_batch]
        if not estimated or estimated_keys != list(keys):
            return SampledColumns.fetch(keys, partition_id, names)
        known = SampledColumns.joined(list(estimated.values()))
        missing = [name for name in names if name not in known.values]
        return known.fetching(keys, partition_id, missing)

    def _archive(self, batch: KVBatchMeta) -> dict[str, float]:
        """Start writing the trajectories of a step, and return their metrics."""
        keys = [
            key
            for key, tag in zip(batch.keys, batch.tags, strict=True)
            if not tag.get("is_padding", False)
        ]
        trajectories = self._reader.fetch(batch.select_keys(keys))
        digests = distinct(trajectories)
        numbers, log_probs = self._read_rows(partition(batch), trajectories)
        numbers.update(summarise(digests))
        for doubt in (unsought_doubt(numbers), search_doubt(numbers)):
            if doubt is not None:
                logger.warning("step %d: %s", self.global_steps, doubt)
        for reason, count in mask_reasons(digests).items():
            logger.warning("step %d: %d trajectories masked, %s", self.global_steps, count, reason)
        self._write(digests, fetch_lines(digests, partition(batch)), log_probs)
        numbers.update(self._accounts.close_step(keys, digests))
        self._reader.forget()
        return numbers

    def _write(
        self,
        trajectories: Sequence[TrajectoryDigest],
        lines: Mapping[str, bytes],
        log_probs: Mapping[str, Mapping[int, NDArray[np.float64]]],
    ) -> None:
        """Write the step's trajectories in the background."""
        run_dir = self.run_dir
        step = self.global_steps
        filled = []
        for trajectory in trajectories:
            name = f"{trajectory.uid}_{trajectory.number}"
            by_turn = turn_log_probs(trajectory, log_probs.get(name, {}))
            filled.append((trajectory, filled_line(lines[name], by_turn)))
        credited = self._credited
        self._credited = ()
        estimator = str(self.config.algorithm.adv_estimator) if credited else ""

        def write() -> None:
            try:
                if credited:
                    write_credit(run_dir, step, estimator, credited)
            finally:  # last, because the viewer reads the credit as soon as this file exists
                write_lines(run_dir, step, filled)

        self._files.start(write)

    @property
    def _bypasses_log_probs(self) -> bool:
        """True if verl uses the rollout's log-probs instead of computing the trainer's."""
        correction = self.config.algorithm.get("rollout_correction", None)
        return correction is not None and bool(correction.get("bypass_mode", False))

    def _read_rows(
        self, partition_id: str, trajectories: list[tuple[str, TrajectoryDigest]]
    ) -> tuple[dict[str, float], Mapping[str, Mapping[int, NDArray[np.float64]]]]:
        """Return the metrics of turns, and the trainer's log-probs of rows that are not masked."""
        log_probs: dict[str, dict[int, NDArray[np.float64]]] = defaultdict(dict)
        rows = [(key, trajectory) for key, trajectory in trajectories if not trajectory.masked]
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
            optional = []
            if not self._bypasses_log_probs:
                optional.append(ENTROPY)
            if self.use_reference_policy:
                optional.append(REFERENCE)
            credited = with_optional(columns, keys, partition_id, optional)
            self._credited = credit_rows(keys, credited, self._similarities)
            self._similarities = None
        padded = {name: columns.padded(name, -1 if name == TURN else 0) for name in (TURN, *fields)}
        return turn_report(keys, [trajectory for _, trajectory in rows], padded), log_probs
