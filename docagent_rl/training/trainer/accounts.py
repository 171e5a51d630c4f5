"""Accounts for every session that was asked for: trained, masked, or the end of the run.

verl logs what escapes an agent loop, marks the group as failed and trains on the sessions that are left (the
synchronous trainer), or takes another group for it (the others). Either way the sessions that fail choose
what is learnt from.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transfer_queue import KVBatchMeta

from docagent_rl.base.io import atomic_write
from docagent_rl.base.tracebacks import last_lines
from docagent_rl.rollout.digest import SessionDigest
from docagent_rl.rollout.trajectory import MaskReason
from docagent_rl.training.trainer.session_reader import SessionReader
from docagent_rl.training.trainer.summary import PREFIX

TRAIN = "train"
"""verl's partition of sessions to train on."""
FAILURE_FILE = "failed_sessions.txt"
_NAMED = 5


class SessionFailedError(RuntimeError):
    """A session ended in an exception that is no service's and no question's: a bug, which ends the run."""


@dataclass(slots=True)
class Accounts:
    """The sessions of the prompts that a trainer has handed out.

    Args:
        run_dir: takes the tracebacks of failed sessions.
        each: sessions of a prompt (`rollout.n`), unless its row says otherwise.
    """

    run_dir: Path
    each: int
    _asked: dict[str, int] = field(default_factory=dict)
    _of_step: int | None = None

    def ask(self, uids: Iterable[str], numbers: Sequence[int] | None = None) -> None:
        """Note prompts that were handed out.

        Args:
            uids: of the prompts.
            numbers: sessions of each; `each` by default.
        """
        for position, uid in enumerate(uids):
            self._asked[str(uid)] = self.each if numbers is None else int(numbers[position])

    def drop(self, uids: Iterable[str]) -> None:
        """Forget prompts whose sessions are not trained on: stale ones, and those of a group filter."""
        for uid in uids:
            self._asked.pop(uid, None)

    def receive(self, uids: Sequence[str], keys: Sequence[str], sessions: Sequence[SessionDigest]) -> None:
        """See that every session of the groups that a step takes is there and has not failed.

        Args:
            uids: the groups.
            keys: verl's keys `{uid}_{session}_{index}` of their rows.
            sessions: the sessions of this package among them.

        Raises:
            SessionFailedError: some have failed, or left no row.
        """
        check_failed(sessions, self.run_dir)
        asked = {uid: self._asked.pop(uid, self.each) for uid in uids}
        check_complete(asked, keys)
        self._of_step = (self._of_step or 0) + sum(asked.values())

    def close_step(self, keys: Sequence[str], trajectories: Sequence[SessionDigest]) -> dict[str, float]:
        """The step's account.

        Args:
            keys: of the rows that the step has trained on, without padding.
            trajectories: their sessions, one each.

        Returns:
            `docagent/sessions/{asked,trained,masked}`, where the sampler is verl's, and
            `docagent/groups/uncompared`: groups of which masking left fewer than two sessions, so that there
            is nothing to compare.

        Raises:
            SessionFailedError: asked for is not trained and masked together.
        """
        asked, self._of_step = self._of_step, None
        if asked is None:
            return {}
        lost = Counter(t.uid for t in trajectories if t.masked)
        groups, masked = sessions_by_group(keys), lost.total()
        trained = sum(map(len, groups.values())) - masked
        if asked != trained + masked:
            raise SessionFailedError(
                f"{asked} sessions were asked for; the step has {trained} trained and {masked} masked ones"
            )
        counts = {"asked": asked, "trained": trained, "masked": masked}
        uncompared = sum(len(own) > 1 and len(own) - lost[uid] < 2 for uid, own in groups.items())
        numbers = {f"{PREFIX}/sessions/{name}": float(count) for name, count in counts.items()}
        return {**numbers, f"{PREFIX}/groups/uncompared": float(uncompared)}


def sessions_by_group(keys: Iterable[str]) -> Mapping[str, set[str]]:
    """The sessions that rows belong to, by prompt.

    Args:
        keys: verl's `{uid}_{session}_{index}`.
    """
    groups: dict[str, set[str]] = defaultdict(set)
    for key in keys:
        uid, session, _ = key.rsplit("_", 2)
        groups[uid].add(session)
    return groups


def check_complete(asked: Mapping[str, int], keys: Iterable[str]) -> None:
    """Refuse groups with more or fewer sessions than were asked for.

    Args:
        asked: sessions by prompt.
        keys: of the rows that there are.

    Raises:
        SessionFailedError: names the groups and their numbers.
    """
    found = sessions_by_group(keys)
    numbers = {uid: len(found.get(uid, ())) for uid in asked}
    wrong = {uid: n for uid, n in numbers.items() if n != asked[uid]}
    if wrong:
        groups = ", ".join(f"{uid} has {n} of {asked[uid]}" for uid, n in sorted(wrong.items())[:_NAMED])
        raise SessionFailedError(
            f"the sessions of {len(wrong)} of {len(asked)} groups are not those asked for: {groups}. An "
            "exception outside the agent loop may have ended them: see the log of the agent loop workers at "
            "`Error in _run_prompt`"
        )


def check_failed(sessions: Iterable[SessionDigest], run_dir: Path) -> None:
    """End the run when a session has failed.

    Raises:
        SessionFailedError: names the first one, the end of its traceback, and the file with all of them.
    """
    failed = [t for t in sessions if t.end == MaskReason.FAILED.value]
    if not failed:
        return
    text = "\n".join(f"{_name(t)}\n{t.error}\n" for t in failed)
    path = atomic_write(run_dir / FAILURE_FILE, text)
    raise SessionFailedError(
        f"{len(failed)} session(s) ended in an exception that is no service's and no question's. The first: "
        f"{_name(failed[0])}:\n{last_lines(failed[0].error or '')}\nTracebacks of all: {path}"
    )


def _name(t: SessionDigest) -> str:
    return f"question {t.question_id!r}, session {t.session} of group {t.uid}, step {t.step}"


def account_for_sessions(
    buffer: Any,
    accounts: Accounts,
    reader: SessionReader,
    dropped: Callable[[Sequence[str]], None] = lambda keys: None,
) -> None:
    """Check what a replay buffer of verl hands out; one of a user's own that does it otherwise is left alone.

    Args:
        buffer: changed in place.
        accounts: of the trainer.
        reader: of its sessions.
        dropped: is told the keys of rows that are thrown away.
    """
    # imported late: it loads the trainer modes, which import this module
    from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

    if not isinstance(buffer, ReplayBuffer):
        return
    look, make = buffer._sync_metadata_from_transfer_queue, buffer._materialize_batch
    clear = buffer._clear_groups

    def looked() -> None:
        look()
        lost = sorted(buffer.failure_keys[TRAIN])
        if lost:  # before others take their place, or what is left of them is trained on
            keys = _keys_of(buffer, lost)
            accounts.receive(lost, keys, _sessions(_batch(keys), reader))
            raise SessionFailedError(f"verl marks groups as failed: {', '.join(lost[:_NAMED])}")

    def made(partition_id: str, uids: Sequence[str], *args: Any) -> KVBatchMeta:
        batch = make(partition_id, uids, *args)
        if partition_id == TRAIN:
            accounts.receive(uids, batch.keys, _sessions(batch, reader))
        return batch

    def cleared(partition_id: str, uids: set[str]) -> None:
        if partition_id == TRAIN and uids:
            keys = _keys_of(buffer, uids)
            check_failed(_sessions(_batch(keys), reader), accounts.run_dir)
            accounts.drop(uids)
            dropped(keys)
        clear(partition_id, uids)

    buffer._sync_metadata_from_transfer_queue, buffer._materialize_batch = looked, made
    buffer._clear_groups = cleared


def _keys_of(buffer: Any, uids: Iterable[str]) -> list[str]:
    wanted = set(uids)
    return [key for key in buffer.partitions[TRAIN] if key.rsplit("_", 2)[0] in wanted]


def _batch(keys: Sequence[str]) -> KVBatchMeta:
    return KVBatchMeta(partition_id=TRAIN, keys=list(keys), tags=[{} for _ in keys])


def _sessions(batch: KVBatchMeta, reader: SessionReader) -> list[SessionDigest]:
    """One a session."""
    return list({(t.uid, t.session): t for _, t in reader.fetch(batch)}.values())
