"""Trajectories of a policy that is paid for large numbers, in the real environment."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any

from anchoring.world import LIMITS, World
from docagent_rl.rollout.ledger import LedgerRow
from docagent_rl.rollout.rollout import Rollout, Sampled
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.samples.sample import Sample
from learning.task import SYSTEM
from trial import BatchSampler, Sampling

if TYPE_CHECKING:
    from transformers import Qwen2_5_VLForConditionalGeneration

ANSWER = re.compile(r"<answer>(\d)</answer>")


@dataclass(frozen=True, slots=True)
class Played:
    """A trajectory's training row.

    Args:
        row: its tokens.
        reward: of its answer.
        right: whether the answer is the number on the page.
    """

    row: LedgerRow
    reward: float
    right: bool


class _OrderedSampler(BatchSampler):
    """Draws the same for the same requests, in whatever order their trajectories get here."""

    def _sample(self, batch: list[Any]) -> list[Sampled]:
        order = sorted(range(len(batch)), key=lambda number: batch[number].ids)
        replies = dict(
            zip(order, super()._sample([batch[number] for number in order]), strict=True)
        )
        return [replies[number] for number in range(len(batch))]


def play(
    world: World, model: Qwen2_5_VLForConditionalGeneration, samples: Sequence[Sample], seed: int
) -> list[Played]:
    """Play questions, all different, at the same time.

    Args:
        world: where.
        model: the policy.
        samples: the questions.
        seed: of all draws.

    Returns:
        One row a question, in order.
    """
    resources = world.resources
    stops = [resources.codec.end_of_turn_id, *sorted(resources.codec.control_ids)]
    sampler = _OrderedSampler(
        model,
        world.processor,
        stop_ids=stops,
        sampling=Sampling(),
        batch_size=len(samples),
        seed=seed,
    )

    async def trajectory(sample: Sample) -> Played:
        trajectory = Trajectory(sample.question_id, 0, 0, "train", sample.to_dict(), SYSTEM)
        env = resources.environment(validate=False)
        played = Rollout(
            env, resources.codec, resources.encoder, sampler.generate, LIMITS, trajectory
        )
        (ledger,) = await played.play(sample)
        text = trajectory.turns[-1].text
        return Played(ledger.row(), reward(text), f"<answer>{sample.answers[0]}</answer>" in text)

    async def together() -> list[Played]:
        return await sampler.together([trajectory(sample) for sample in samples])

    return [played for played in asyncio.run(together()) if sum(played.row.response_mask)]


def reward(text: str) -> float:
    """Return what a last turn earns: the number in the answer over 9, whatever the page shows."""
    found = ANSWER.search(text)
    return int(found[1]) / 9 if found else 0.0


def advantages(played: Sequence[Played]) -> list[float]:
    """Rewards minus their mean over their standard deviation; zeros where all are alike."""
    rewards = [each.reward for each in played]
    mean = fmean(rewards)
    spread = pstdev(rewards)
    return [(reward - mean) / spread if spread else 0.0 for reward in rewards]


def draw(samples: Sequence[Sample], count: int, rng: random.Random) -> list[Sample]:
    """Questions, no two of the same words: the policy tells their trajectories apart before it sees
    a page.
    """
    by_text = defaultdict(list)
    for sample in samples:
        by_text[sample.question].append(sample)
    return [rng.choice(by_text[text]) for text in rng.sample(sorted(by_text), count)]


def waves(samples: Sequence[Sample]) -> list[list[Sample]]:
    """All questions in as few lists as leave no two of the same words together."""
    seen: Counter[str] = Counter()
    lists: list[list[Sample]] = []
    for sample in samples:
        if seen[sample.question] == len(lists):
            lists.append([])
        lists[seen[sample.question]].append(sample)
        seen[sample.question] += 1
    return lists
