"""Account for every requested trajectory: it is trained on, it is masked, or it ends the run.

If an exception escapes an agent loop, verl logs it, marks the group as failed, and trains on the
remaining trajectories (the synchronous trainer) or on another group (the others). Either way
failures would select the data that is trained on.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transfer_queue import KVBatchMeta

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.base.io import atomic_write
from docagent_rl.rollout.digest import TrajectoryDigest
from docagent_rl.rollout.trajectory import MaskReason
from docagent_rl.training.trainer.summary import PREFIX, mask_reasons
from docagent_rl.training.trainer.trajectory_reader import TrajectoryReader, distinct

TRAIN = "train"
"""verl's partition of training trajectories."""
FAILURE_FILE = "failed_trajectories.txt"
_NAMED = 5


class TrajectoryFailedError(RuntimeError):
    """An exception in a trajectory that neither a service nor the question caused.

    It is a bug and ends the run.
    """


@dataclass(slots=True)
class Accounts:
    """The trajectories that a trainer has requested, by prompt.

    The tracebacks of failed trajectories are written to `run_dir`. A prompt has `each` trajectories
    (`rollout.n`) unless its row contains another number.
    """

    run_dir: Path
    each: int
    _asked: dict[str, int] = field(default_factory=dict)
    _of_step: int | None = None

    def ask(self, uids: Iterable[str], numbers: Sequence[int] | None = None) -> None:
        """Record requested prompts with their numbers of trajectories (by default `each`)."""
        for position, uid in enumerate(uids):
            self._asked[str(uid)] = self.each if numbers is None else int(numbers[position])

    def drop(self, uids: Iterable[str]) -> None:
        """Forget prompts whose trajectories are not trained on, because they are stale or
        filtered.
        """
        for uid in uids:
            self._asked.pop(uid, None)

    def receive(
        self, uids: Sequence[str], keys: Sequence[str], trajectories: Sequence[TrajectoryDigest]
    ) -> None:
        """Check that every trajectory of the groups in a step exists and has not failed.

        `keys` are verl's `{uid}_{trajectory}_{index}` of their rows; `trajectories` are those of
        this package's agent loop.

        Raises:
            TrajectoryFailedError: a trajectory has failed, or has no row.
        """
        check_failed(trajectories, self.run_dir)
        asked = {uid: self._asked.pop(uid, self.each) for uid in uids}
        check_complete(asked, keys)
        self._of_step = (self._of_step or 0) + sum(asked.values())

    def close_step(
        self, keys: Sequence[str], trajectories: Sequence[TrajectoryDigest]
    ) -> dict[str, float]:
        """Return the step's numbers, from the keys of its rows without padding and its
        trajectories.

        Returns:
            `docagent/trajectories/{asked,trained,masked}`, if the sampler is verl's, and
            `docagent/groups/uncompared`: the number of groups that masking left with fewer than two
            trajectories, so that there is nothing to compare.

        Raises:
            TrajectoryFailedError: the number of requested trajectories is not that of trained and
                masked ones together.
        """
        asked = self._of_step
        self._of_step = None
        if asked is None:
            return {}
        masked_by_group = Counter(t.uid for t in trajectories if t.masked)
        groups = trajectories_by_group(keys)
        masked = masked_by_group.total()
        trained = sum(map(len, groups.values())) - masked
        if asked != trained + masked:
            raise TrajectoryFailedError(
                f"{asked} trajectories were requested, but the step has {trained} trained and "
                f"{masked} masked ones"
            )
        counts = {"asked": asked, "trained": trained, "masked": masked}
        uncompared = sum(
            len(own) > 1 and len(own) - masked_by_group[uid] < 2 for uid, own in groups.items()
        )
        numbers = {f"{PREFIX}/trajectories/{name}": float(count) for name, count in counts.items()}
        return {**numbers, f"{PREFIX}/groups/uncompared": float(uncompared)}


def trajectories_by_group(keys: Iterable[str]) -> Mapping[str, set[str]]:
    """Return the trajectories of rows `{uid}_{trajectory}_{index}`, by prompt."""
    groups: dict[str, set[str]] = defaultdict(set)
    for key in keys:
        uid, trajectory, _ = key.rsplit("_", 2)
        groups[uid].add(trajectory)
    return groups


def check_complete(asked: Mapping[str, int], keys: Iterable[str]) -> None:
    """Check that groups have as many trajectories as requested; `keys` are those of the rows.

    Raises:
        TrajectoryFailedError: groups have more or fewer; the message names them and the numbers.
    """
    found = trajectories_by_group(keys)
    numbers = {uid: len(found.get(uid, ())) for uid in asked}
    wrong = {uid: n for uid, n in numbers.items() if n != asked[uid]}
    if wrong:
        groups = ", ".join(
            f"{uid} has {n} of {asked[uid]}" for uid, n in sorted(wrong.items())[:_NAMED]
        )
        raise TrajectoryFailedError(
            f"{len(wrong)} of {len(asked)} groups have other numbers of trajectories than "
            f"requested: {groups}. An exception outside of the agent loop may have ended them: "
            "search the log of the agent loop workers for `Error in _run_prompt`"
        )


def check_failed(trajectories: Iterable[TrajectoryDigest], run_dir: Path) -> None:
    """Check that no trajectory has failed.

    Raises:
        TrajectoryFailedError: one has; the message names the first one, the end of its traceback,
            and the file with all tracebacks.
    """
    failed = [t for t in trajectories if t.end == MaskReason.FAILED.value]
    if not failed:
        return
    text = "\n".join(f"{_name(t)}\n{t.error}\n" for t in failed)
    path = atomic_write(run_dir / FAILURE_FILE, text)
    end = "\n".join((failed[0].error or "").splitlines()[-3:])
    raise TrajectoryFailedError(
        f"an exception that neither a service nor the question caused ended {len(failed)} of the "
        f"trajectories. The first one: {_name(failed[0])}:\n{end}\nAll tracebacks: {path}"
    )


def check_counting(trajectories: Sequence[TrajectoryDigest]) -> None:
    """Check that not every trajectory of a batch is masked, before anything is computed.

    Raises:
        InfrastructureError: all are masked; the message contains the reasons.
    """
    if trajectories and all(trajectory.masked for trajectory in trajectories):
        reasons = mask_reasons(trajectories)
        raise InfrastructureError(
            f"every trajectory of step {trajectories[0].step} is masked: {reasons}"
        )


def _name(t: TrajectoryDigest) -> str:
    return f"question {t.question_id!r}, trajectory {t.number} of group {t.uid}, step {t.step}"


def account_for_trajectories(
    buffer: Any,
    accounts: Accounts,
    reader: TrajectoryReader,
    dropped: Callable[[Sequence[str]], None] = lambda keys: None,
    replays: Callable[[], bool] = lambda: False,
) -> None:
    """Check every batch that a replay buffer of verl returns.

    `buffer` is changed in place; `dropped` is called with the keys of rows that are discarded.
    When groups have failed, `replays` may begin their rollout again, because a part of the run
    died, and then returns True.
    """
    sync_metadata = buffer._sync_metadata_from_transfer_queue
    materialize_batch = buffer._materialize_batch
    clear_groups = buffer._clear_groups

    def sync_and_check() -> None:
        sync_metadata()
        if buffer.failure_keys[TRAIN] and replays():
            sync_metadata()
        failed = sorted(buffer.failure_keys[TRAIN])
        if failed:  # before verl replaces these groups, or trains on the rest of them
            keys = _keys_of(buffer, failed)
            accounts.receive(failed, keys, distinct(reader.fetch_rows(keys, TRAIN)))
            raise TrajectoryFailedError(
                f"verl has marked groups as failed: {', '.join(failed[:_NAMED])}"
            )

    def materialize_and_receive(partition_id: str, uids: Sequence[str], *args: Any) -> KVBatchMeta:
        batch = materialize_batch(partition_id, uids, *args)
        if partition_id == TRAIN:
            rows = reader.fetch(batch)
            accounts.receive(uids, batch.keys, distinct(rows))
            if len(rows) == len(batch.keys):
                check_counting(distinct(rows))
        return batch

    def clear_and_forget(partition_id: str, uids: set[str]) -> None:
        if partition_id == TRAIN and uids:
            keys = _keys_of(buffer, uids)
            check_failed(distinct(reader.fetch_rows(keys, TRAIN)), accounts.run_dir)
            accounts.drop(uids)
            dropped(keys)
        clear_groups(partition_id, uids)

    buffer._sync_metadata_from_transfer_queue = sync_and_check
    buffer._materialize_batch = materialize_and_receive
    buffer._clear_groups = clear_and_forget


def _keys_of(buffer: Any, uids: Iterable[str]) -> list[str]:
    names = set(uids)
    return [key for key in buffer.partitions[TRAIN] if key.rsplit("_", 2)[0] in names]
