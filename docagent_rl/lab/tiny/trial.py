"""What a model does in a recipe's environment, without a trainer: sessions, and how their rewards vary.

A run of a few steps on a tiny model shows something only if its reward terms differ between sessions; a
trial tells how likely that is before minutes are spent on the run.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.config import DocAgentConfig, plain
from docagent_rl.lab.tiny.sampler import BatchSampler, Sampling
from docagent_rl.records.record import Record
from docagent_rl.rollout.chat import template_kwargs
from docagent_rl.rollout.resources import SessionResources
from docagent_rl.rollout.session import Limits, Session
from docagent_rl.rollout.trajectory import Status, Trajectory

if TYPE_CHECKING:
    from omegaconf import DictConfig

REWARD = "reward/"
"""What the names of reward terms begin with among the numbers of a session."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How a recipe plays.

    Args:
        config: its section `docagent`.
        limits: its token budgets.
        sampling: how it draws tokens.
        template: arguments of its chat template.
    """

    config: DocAgentConfig
    limits: Limits
    sampling: Sampling
    template: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, recipe: DictConfig) -> Setting:
        """Read it off a composed recipe.

        Raises:
            UserError: the section `docagent` is invalid.
        """
        config = DocAgentConfig.parse(plain(recipe.docagent))
        rollout, turns = recipe.actor_rollout_ref.rollout, config.rollout
        return cls(
            config,
            Limits(
                prompt=recipe.data.max_prompt_length,
                response=recipe.data.max_response_length,
                turn=turns.turn_tokens,
                min_turn=turns.min_turn_tokens,
            ),
            Sampling(rollout.temperature, rollout.top_p),
            template_kwargs(recipe),
        )


def play_trial(
    setting: Setting,
    model: Any,
    processor: Any,
    records: Sequence[Record],
    *,
    sessions: int = 4,
    together: int = 32,
    seed: int = 0,
) -> list[Trajectory]:
    """Play every question `sessions` times.

    Args:
        setting: how to play.
        model: a Qwen2.5-VL of transformers.
        processor: its processor.
        records: the questions.
        sessions: sessions of each question.
        together: sessions at a time.
        seed: of all draws.

    Returns:
        The trajectories, those of a question next to each other. A question that cannot be played, and a
        session in which a service failed, are masked, as in a run.
    """
    resources = SessionResources(
        setting.config, processor.tokenizer, processor, setting.template, running=False
    )
    stops = [resources.codec.end_of_turn_id, *sorted(resources.codec.control_ids)]
    sampler = BatchSampler(model.eval(), processor, stop_ids=stops, sampling=setting.sampling, seed=seed)
    plan = [(number, session) for number in range(len(records)) for session in range(sessions)]

    async def run() -> list[Trajectory]:
        played: list[Trajectory] = []
        for start in range(0, len(plan), together):
            group = plan[start : start + together]
            tasks = [
                _play(resources, sampler, setting.limits, records[n], n, session) for n, session in group
            ]
            played += await sampler.together(tasks)
        return played

    return asyncio.run(run())


async def _play(
    resources: SessionResources,
    sampler: BatchSampler,
    limits: Limits,
    record: Record,
    number: int,
    of_group: int,
) -> Trajectory:
    trajectory = Trajectory(
        uid=str(number),
        session=of_group,
        step=0,
        split="train",
        record=record.to_dict(),
        system=resources.system.name,
    )
    env = resources.environment(validate=False)
    try:
        session = Session(env, resources.codec, resources.encoder, sampler.generate, limits, trajectory)
        await session.play(record)
    except (InfrastructureError, UserError) as error:
        trajectory.status, trajectory.error = Status.MASKED.value, str(error)
    return trajectory


def reward_values(trajectories: Sequence[Trajectory]) -> dict[str, list[float]]:
    """Each reward term's values over the sessions that are not masked, in order."""
    metrics = [trajectory.metrics for trajectory in trajectories if not trajectory.masked]
    names = [name for name in metrics[0] if name.startswith(REWARD)] if metrics else []
    return {name.removeprefix(REWARD): [numbers[name] for numbers in metrics] for name in names}


def shares(values: Sequence[float], most: int = 4) -> dict[float, float]:
    """The most frequent values, rounded to two digits, and their shares."""
    counts = Counter(round(value, 2) for value in values)
    return {value: count / len(values) for value, count in counts.most_common(most)}


def chance_to_vary(
    trajectories: Sequence[Trajectory],
    *,
    prompts: int = 4,
    sessions: int = 4,
    steps: int = 2,
    draws: int = 2000,
    seed: int = 0,
) -> dict[str, float]:
    """How likely each reward term takes two values within one step at least, by bootstrap.

    A draw takes `prompts * steps` questions and `sessions` of the sessions of each, without replacement.

    Args:
        trajectories: of a trial.
        prompts: questions of a step.
        sessions: sessions of a question; all of them when it has fewer that are not masked.
        steps: steps.
        draws: number of draws.
        seed: of the draws.

    Returns:
        The chance by term, and under `all` that of all terms together.

    Raises:
        UserError: there are fewer questions than a draw takes.
    """
    groups: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        if not trajectory.masked:
            groups.setdefault(trajectory.uid, []).append(trajectory)
    if len(groups) < prompts * steps:
        raise UserError(f"{len(groups)} questions were played; a draw takes {prompts * steps}: play more")
    rng = random.Random(seed)
    found: Counter[str] = Counter()
    for _ in range(draws):
        drawn = rng.sample(list(groups.values()), prompts * steps)
        chosen = [rng.sample(group, min(sessions, len(group))) for group in drawn]
        varied = [_varying(chosen[start : start + prompts]) for start in range(0, len(chosen), prompts)]
        terms = {name: any(step[name] for step in varied) for name in varied[0]}
        found.update(name for name, varies in {**terms, "all": all(terms.values())}.items() if varies)
    names = [*reward_values(trajectories), "all"]
    return {name: found[name] / draws for name in names}


def _varying(step: Sequence[Sequence[Trajectory]]) -> Mapping[str, bool]:
    """Which terms differ between the sessions of a step."""
    values = reward_values([trajectory for group in step for trajectory in group])
    return {name: min(each) != max(each) for name, each in values.items()}
