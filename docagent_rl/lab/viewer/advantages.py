"""The advantages of sessions, in the index of their run: lists are sorted and filtered by them."""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.lab.viewer.folder import ViewedRun
from docagent_rl.lab.viewer.schema import reading, writing
from docagent_rl.rollout.credit import StepCredit, credit_file, read_credit

logger = logging.getLogger(__name__)


def update_advantages(index: Path, run: ViewedRun, anew: Collection[int | None]) -> bool:
    """Read credit that is new.

    Args:
        index: of the run.
        run: whose.
        anew: steps whose sessions were read again, and have lost theirs.

    Returns:
        Whether anything was read.

    Raises:
        OSError, sqlite3.Error: the index cannot be read or written.
    """
    with reading(index) as base:
        known = {step: (size, changed) for step, size, changed in base.execute("SELECT * FROM credits")}
    files = run.credit_files()
    stale = [
        step
        for step, status in sorted(files.items())
        if step in anew or known.get(step) != (status.st_size, status.st_mtime_ns)
    ]
    for step in stale:
        means = _means(credit_file(run.path, step))
        with writing(index) as base:
            base.executemany(
                "UPDATE sessions SET advantage = ? WHERE split = 'train' AND step = ? AND uid = ? "
                "AND session = ?",
                ((mean, step, uid, session) for (uid, session), mean in means.items()),
            )
            entry = (step, files[step].st_size, files[step].st_mtime_ns)
            base.execute("INSERT OR REPLACE INTO credits VALUES (?, ?, ?)", entry)
            base.execute("UPDATE state SET revision = revision + 1")
    return bool(stale)


def mean_advantages(credit: StepCredit) -> dict[tuple[str, int], float]:
    """The mean over the sampled tokens of each session, by group and number."""
    sums: dict[tuple[str, int], tuple[float, int]] = {}
    for row in credit.rows:
        values = row.lists.get("advantages")
        if values is not None and len(values):
            total, count = sums.get((row.uid, row.session), (0.0, 0))
            sums[row.uid, row.session] = total + float(values.sum(dtype=float)), count + len(values)
    return {key: total / count for key, (total, count) in sums.items()}


def _means(file: Path) -> dict[tuple[str, int], float]:
    try:
        credit = read_credit(file, lists=["advantages"])
    except UserError as error:
        logger.warning("%s", error)
        return {}
    return {} if credit is None else mean_advantages(credit)
