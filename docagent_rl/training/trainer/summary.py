"""Metrics of a batch of trajectories, of their turns, and of a validation, by name."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np
from torch import Tensor

from docagent_rl.advantages.inputs import Advantages, Discounts
from docagent_rl.advantages.trajectories import turn_metrics
from docagent_rl.envs.outcome import ACCURACY, UNJUDGED_SHARE, OutcomeState
from docagent_rl.rollout.digest import TrajectoryDigest
from docagent_rl.rollout.evidence import Branch, Evidence, Stage, shares
from docagent_rl.rollout.trajectory import MaskReason
from docagent_rl.training.trainer.inputs import advantage_inputs

PREFIX = "docagent"
REWARD = "reward"
PLAYED_REWARD = "reward_played"
"""The reward over trajectories that were played; runs are not compared by it."""
PLAYED = "played"
"""1 if a trajectory was played, otherwise 0."""
UNSOUGHT = f"{PREFIX}/funnel/unsought_reward"
TIME_SHARE = f"{PREFIX}/time_share"
_NOT_PLAYED = {ACCURACY: 0.0, UNJUDGED_SHARE: 0.0}
"""Metrics of a trajectory that was not played, and so counts as wrong."""
MOST_UNSOUGHT = 0.25
"""A run warns if a larger share of the rewards is for answers without evidence."""


def summarise(
    trajectories: Sequence[TrajectoryDigest], missing: int | None = None
) -> dict[str, float]:
    """Return means over trajectories that count, and totals over all, including masked ones.

    In a validation, `missing` is the number of trajectories that left no row.

    Returns:
        The mean `docagent/<name>` of each of the environment's metrics, and
        `docagent/reward/<term>/{min,max}` of each reward term. The counts
        `docagent/masked_trajectories`, `docagent/masked/<reason>` by `MaskReason`, and
        `docagent/retried_trajectories`, and `docagent/replayed_trajectories`.
        `docagent/masked/turns`, the mean number of turns of masked trajectories that were partly
        played. `docagent/<retriever>/{p50_s,p90_s,p99_s}` over all searches that were not cached.
        `docagent/funnel/<stage>`, the share of questions with known evidence that reached each
        stage of `docagent_rl.rollout.evidence`, of those in which the evidence was `read_whole`,
        `zoomed` or shown `as_text`, and of those `guessed` or `unjudged`;
        `docagent/funnel/unsought_reward`, the share of the rewards that went to trajectories that
        neither searched nor opened a page. `docagent/image_preprocessings` (in agent workers and
        rollout servers) and `docagent/image_loads`.
        `docagent/time_share/{generate,search,step,encode}`, the shares of the trajectories' time
        that went to each, and `docagent/prefill_ratio`, the prompt tokens that servers computed for
        later turns, divided by those that were new.
    """
    metrics = _means(trajectories)
    metrics |= _masked_counts(trajectories, missing)
    retried = sum(each.attempts > 1 for each in trajectories)
    preprocessings = sum(each.image_preprocessings for each in trajectories)
    metrics[f"{PREFIX}/retried_trajectories"] = float(retried)
    replayed = sum(each.replays > 0 for each in trajectories)
    metrics[f"{PREFIX}/replayed_trajectories"] = float(replayed)
    metrics[f"{PREFIX}/image_preprocessings"] = float(preprocessings)
    metrics |= _search_seconds(trajectories)

    evidence = [_evidence(trajectory) for trajectory in trajectories]
    metrics |= {f"{PREFIX}/funnel/{name}": share for name, share in shares(evidence).items()}
    # only questions with known evidence
    rewarded = [
        (each.reward, each.evidence[0])
        for each in trajectories
        if each.evidence[0] is not None and each.reward > 0
    ]
    if total := sum(reward for reward, _ in rewarded):
        unsought = sum(reward for reward, stage in rewarded if stage == Stage.ALL.value)
        metrics[UNSOUGHT] = unsought / total
    metrics[f"{PREFIX}/image_loads"] = float(sum(each.image_loads for each in trajectories))
    metrics |= _time_shares(trajectories)
    if new := sum(each.prefill_new for each in trajectories):
        computed = sum(each.prefill_computed for each in trajectories)
        metrics[f"{PREFIX}/prefill_ratio"] = computed / new
    return metrics


def _means(trajectories: Sequence[TrajectoryDigest]) -> dict[str, float]:
    """Return the means of the environment's metrics, and the range of each reward term."""
    values: dict[str, list[float]] = defaultdict(list)
    for trajectory in trajectories:
        if not trajectory.masked:
            for name, value in trajectory.metrics.items():
                values[name].append(value)

    metrics = {f"{PREFIX}/{name}": fmean(items) for name, items in values.items()}
    for name, items in values.items():
        if _is_term(name):
            metrics[f"{PREFIX}/{name}/min"] = min(items)
            metrics[f"{PREFIX}/{name}/max"] = max(items)
    return metrics


def _masked_counts(
    trajectories: Sequence[TrajectoryDigest], missing: int | None
) -> dict[str, float]:
    """Count the masked trajectories by reason; see `summarise` for `missing`."""
    counts = Counter(each.end for each in trajectories if each.masked)
    counts[MaskReason.MISSING.value] = missing or 0
    metrics = {}
    for reason in MaskReason:
        if reason is not MaskReason.MISSING or missing is not None:
            metrics[f"{PREFIX}/masked/{reason.value}"] = float(counts[reason.value])
    metrics[f"{PREFIX}/masked_trajectories"] = float(counts.total())
    if turns := [len(each.turns) for each in trajectories if each.masked and each.turns]:
        metrics[f"{PREFIX}/masked/turns"] = fmean(turns)
    return metrics


def _search_seconds(trajectories: Sequence[TrajectoryDigest]) -> dict[str, float]:
    """Return percentiles of the searches' seconds by retriever.

    Masked trajectories count, too: a service that hangs masks them.
    """
    seconds: dict[str, list[float]] = defaultdict(list)
    for trajectory in trajectories:
        for retriever, of_trajectory in trajectory.search_s.items():
            seconds[retriever] += of_trajectory

    metrics = {}
    for retriever, of_retriever in seconds.items():
        for percent in (50, 90, 99):
            percentile = float(np.percentile(of_retriever, percent))
            metrics[f"{PREFIX}/{retriever}/p{percent}_s"] = percentile
    return metrics


def _time_shares(trajectories: Sequence[TrajectoryDigest]) -> dict[str, float]:
    """Return the shares of the time of all trajectories: a search is part of a turn's step."""
    seconds: Counter[str] = Counter()
    for trajectory in trajectories:
        step = trajectory.seconds.get("step", 0.0)
        # concurrent searches of a turn take no longer than its step
        search = min(step, sum(map(sum, trajectory.search_s.values())))
        seconds.update(trajectory.seconds)
        seconds.update({"step": -search, "search": search})
    total = seconds.total()
    if not total:
        return {}
    return {f"{TIME_SHARE}/{phase}": part / total for phase, part in seconds.items()}


def _evidence(trajectory: TrajectoryDigest) -> Evidence:
    stage, reach, outcome, branch = trajectory.evidence
    return Evidence(
        Stage(stage) if stage else None,
        reach,
        OutcomeState(outcome) if outcome else None,
        Branch(branch) if branch else None,
    )


def unsought_doubt(numbers: Mapping[str, float]) -> str | None:
    """Return a warning if too much of the rewards is for answers without evidence."""
    share = numbers.get(UNSOUGHT, 0.0)
    if share <= MOST_UNSOUGHT:
        return None
    return (
        f"trajectories that neither searched nor opened a page got {share:.0%} of the rewards: the "
        "policy may learn to answer without the document; `docagent-rl recipes show` lists the "
        "rewards that allow it"
    )


def search_doubt(numbers: Mapping[str, float]) -> str | None:
    """Return a warning if trajectories waited longer for searches than for the policy."""
    search = numbers.get(f"{TIME_SHARE}/search", 0.0)
    generate = numbers.get(f"{TIME_SHARE}/generate", 0.0)
    if search <= generate:
        return None
    return (
        f"searches took {search:.0%} of the trajectories' time, and sampling {generate:.0%}: serve "
        "the index from a GPU of its own or from more replicas (docs/cluster.md, Retriever)"
    )


def mask_reasons(trajectories: Sequence[TrajectoryDigest]) -> dict[str, int]:
    """Count the masked trajectories for each reason."""
    return dict(Counter(f"{each.end}: {each.error}" for each in trajectories if each.masked))


def turn_report(
    keys: Sequence[str], trajectories: Sequence[TrajectoryDigest], columns: Mapping[str, Tensor]
) -> dict[str, float]:
    """Return the rewards and advantages of turns (`turn_metrics`), for any estimator.

    `columns` are (b, s) by name: `turn_index`, -1 where nothing was sampled, `rm_scores`,
    `advantages`, `returns`, and `values` if there is a critic. Tokens that verl rejected count with
    their advantage of 0.
    """
    inputs = advantage_inputs(
        keys=keys,
        trajectories=trajectories,
        token_rewards=columns["rm_scores"],
        turn_index=columns["turn_index"],
        values=columns.get("values"),
        discounts=Discounts(),
    )
    return turn_metrics(inputs, Advantages(columns["advantages"], columns["returns"]))


@dataclass(slots=True)
class ValidationTable:
    """The trajectories of a validation, one per row, for verl's `process_validation_metrics`.

    `columns` are values by name; `None` is excluded from means. `missing` is the number of
    trajectories that left no row.
    """

    sources: list[str]
    uids: list[str]
    columns: dict[str, list[Any]] = field(default_factory=dict)
    missing: int = 0


def validation_table(
    sources: Sequence[str],
    uids: Sequence[str],
    columns: Mapping[str, Sequence[Any]],
    trajectories: Sequence[TrajectoryDigest | None],
    expected: Mapping[tuple[str, str], int] | None,
) -> ValidationTable:
    """Return every requested trajectory with the metrics that it counts with.

    verl excludes `None` from its means, and trajectories that ended with an exception from its
    batch. Either way unplayable questions would raise the score, so here such a trajectory counts
    as wrong: its reward and every reward term is 0, or what it had been charged until then if that
    is less, and its `ACCURACY` is 0. Its other metrics are those that the environment has set,
    which are none unless the trajectory reached its end (`MaskReason.EMPTY`). A trajectory of
    another agent loop (`None`) keeps its values. `expected` contains counts by data source and
    prompt group.
    """
    table = ValidationTable(list(map(str, sources)), list(map(str, uids)))
    table.columns = {name: list(values) for name, values in columns.items()}
    rewards = zip(columns[REWARD], trajectories, strict=True)
    table.columns[REWARD] = [_reward(reward, trajectory) for reward, trajectory in rewards]
    table.columns[PLAYED] = [float(each is None or not each.masked) for each in trajectories]
    names = dict.fromkeys(
        name for each in trajectories if each is not None for name in each.metrics
    )
    for name in names:
        table.columns[name] = [_number(name, trajectory) for trajectory in trajectories]
    played = zip(table.columns[REWARD], table.columns[PLAYED], strict=True)
    table.columns[PLAYED_REWARD] = [reward if is_played else None for reward, is_played in played]

    # trajectories that left no row get one, as wrong ones
    counts = Counter(zip(table.sources, table.uids, strict=True))
    missing_values = {REWARD: 0.0, PLAYED: 0.0, **_NOT_PLAYED}
    for (source, uid), number in (expected or {}).items():
        for _ in range(number - counts[source, uid]):
            table.missing += 1
            table.sources.append(source)
            table.uids.append(uid)
            for name, values in table.columns.items():
                values.append(0.0 if _is_term(name) else missing_values.get(name))
    return table


def _reward(reward: float, trajectory: TrajectoryDigest | None) -> float:
    if trajectory is None:
        return reward
    if trajectory.masked:
        return min(0.0, sum(turn.reward for turn in trajectory.turns))
    # the reward over all rows: verl only uses that of the last row
    return trajectory.reward


def _number(name: str, trajectory: TrajectoryDigest | None) -> float | None:
    if trajectory is None:
        return None
    value = trajectory.metrics.get(name)
    if trajectory.masked and _is_term(name):
        return min(0.0, value or 0.0)
    if trajectory.masked and name in _NOT_PLAYED:
        return _NOT_PLAYED[name]
    return value


def _is_term(name: str) -> bool:
    return name.startswith(f"{REWARD}/")
