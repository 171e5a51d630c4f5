"""What another model makes of the questions of a collection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from docagent_rl.base.errors import UserError
from docagent_rl.lab.agents.replay import trajectories_of
from docagent_rl.lab.collect.case import Case, case_of
from docagent_rl.lab.collect.curation import rates
from docagent_rl.lab.collect.filters import Failed, Filter


def check_runs(filters: Sequence[Filter]) -> None:
    """See that the run of a `Failed` filter is there, before anything is paid for.

    Raises:
        UserError: it is not, or is empty.
    """
    for step in filters:
        if isinstance(step, Failed) and next(iter(trajectories_of(step.run)), None) is None:
            raise UserError(f"{step.run} holds no session: which questions does the other model fail?")


def with_failures(cases: Sequence[Case], filters: Sequence[Filter]) -> list[Case]:
    """Cases that know whether the model of a `Failed` filter fails their question: in all of its sessions.

    Args:
        cases: sessions that were played.
        filters: in order.

    Raises:
        UserError: the model's run cannot be read, did not play a question that is asked for, or there are two
            such filters.
    """
    wanted = [step for step in filters if isinstance(step, Failed)]
    if not wanted:
        return list(cases)
    if len(wanted) > 1:
        raise UserError("a collection takes one filter `failed`: one model")
    (step,) = wanted
    played = (case_of(each) for each in trajectories_of(step.run) if not each.masked)
    right = {rate.question: rate.right for rate in rates(played, step.by, step.threshold)}
    lacking = {case.question for case in cases if case.dataset not in step.exempt} - right.keys()
    if lacking:
        raise UserError(
            f"{step.run} played no session of {len(lacking)} questions of this collection, e.g. "
            f"{min(lacking)!r}: let the model that is to fail play all of them but those of "
            f"{', '.join(step.exempt) or 'no dataset'}"
        )
    return [replace(case, failed=right.get(case.question) == 0) for case in cases]
