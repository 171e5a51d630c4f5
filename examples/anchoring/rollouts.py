"""Sample trajectories of a policy that is rewarded for large numbers, in the real environment."""

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
    """A trajectory's training row with its reward.

    Args:
        row: the tokens of the row.
        reward: the reward of the answer.
        right: whether the answer is the number on the page.
    """

    row: LedgerRow
    reward: float
    right: bool


class _OrderedSampler(BatchSampler):
    """Samples the same turns for the same requests, in whatever order they arrive."""

    def _sample(self, batch: list[Any]) -> list[Sampled]:
        order = sorted(range(len(batch)), key=lambda number: batch[number].ids)
        replies = dict(
            zip(order, super()._sample([batch[number] for number in order]), strict=True)
        )
        return [replies[number] for number in range(len(batch))]


def play(
    world: World, model: Qwen2_5_VLForConditionalGeneration, samples: Sequence[Sample], seed: int
) -> list[Played]:
    """Sample one trajectory of each question, all of them concurrently.

    Args:
        world: the task.
        model: the policy.
        samples: the questions, of which no two may have the same words.
        seed: the seed of all draws.

    Returns:
        the rows in the order of the questions; a row without sampled tokens is left out.
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
    """Return the reward of a last turn: the number in its answer divided by 9, right or wrong."""
    found = ANSWER.search(text)
    return int(found[1]) / 9 if found else 0.0


def advantages(played: Sequence[Played]) -> list[float]:
    """Return rewards minus their mean, divided by their standard deviation; zeros if that is 0."""
    rewards = [each.reward for each in played]
    mean = fmean(rewards)
    spread = pstdev(rewards)
    return [(reward - mean) / spread if spread else 0.0 for reward in rewards]


def draw(samples: Sequence[Sample], count: int, rng: random.Random) -> list[Sample]:
    """Draw `count` questions, no two of which have the same words.

    So the prompts of an update all differ, which `_OrderedSampler` relies on.
    """
    by_text = defaultdict(list)
    for sample in samples:
        by_text[sample.question].append(sample)
    return [rng.choice(by_text[text]) for text in rng.sample(sorted(by_text), count)]


def waves(samples: Sequence[Sample]) -> list[list[Sample]]:
    """Split questions into as few lists as possible, none with two questions of the same words."""
    seen: Counter[str] = Counter()
    lists: list[list[Sample]] = []
    for sample in samples:
        if seen[sample.question] == len(lists):
            lists.append([])
        lists[seen[sample.question]].append(sample)
        seen[sample.question] += 1
    return lists
