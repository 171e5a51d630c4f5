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

from anchoring.reader_task import LIMITS, ReaderTask
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
class ScoredRow:
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
        turns = super()._sample([batch[number] for number in order])
        turn_of_request = dict(zip(order, turns, strict=True))
        return [turn_of_request[number] for number in range(len(batch))]


def play(
    task: ReaderTask,
    model: Qwen2_5_VLForConditionalGeneration,
    samples: Sequence[Sample],
    seed: int,
) -> list[ScoredRow]:
    """Sample one trajectory of each question, all of them concurrently.

    Args:
        task: the task.
        model: the policy.
        samples: the questions, of which no two may have the same words.
        seed: the seed of all draws.

    Returns:
        the rows in the order of the questions; a row without sampled tokens is left out.
    """
    resources = task.resources
    stop_ids = [resources.codec.end_of_turn_id, *sorted(resources.codec.control_ids)]
    sampler = _OrderedSampler(
        model,
        task.processor,
        stop_ids=stop_ids,
        sampling=Sampling(),
        batch_size=len(samples),
        seed=seed,
    )

    async def play_one(sample: Sample) -> ScoredRow:
        trajectory = Trajectory(sample.question_id, 0, 0, "train", sample.to_dict(), SYSTEM)
        env = resources.environment(validate=False)
        rollout = Rollout(
            env, resources.codec, resources.encoder, sampler.generate, LIMITS, trajectory
        )
        (ledger,) = await rollout.play(sample)

        last_turn = trajectory.turns[-1].text
        is_right = f"<answer>{sample.answers[0]}</answer>" in last_turn
        return ScoredRow(ledger.row(), reward(last_turn), is_right)

    async def play_all() -> list[ScoredRow]:
        return await sampler.together([play_one(sample) for sample in samples])

    return [scored for scored in asyncio.run(play_all()) if any(scored.row.response_mask)]


def reward(text: str) -> float:
    """Return the reward of a last turn: the number in its answer divided by 9, right or wrong."""
    found = ANSWER.search(text)
    return int(found[1]) / 9 if found else 0.0


def advantages(rows: Sequence[ScoredRow]) -> list[float]:
    """Return rewards minus their mean, divided by their standard deviation; zeros if that is 0."""
    rewards = [scored.reward for scored in rows]
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


def lists_of_distinct_questions(samples: Sequence[Sample]) -> list[list[Sample]]:
    """Split questions into as few lists as possible, none with two questions of the same words."""
    occurrences: Counter[str] = Counter()
    lists: list[list[Sample]] = []
    for sample in samples:
        # the first question of these words goes into the first list, the second into the second
        number = occurrences[sample.question]
        if number == len(lists):
            lists.append([])
        lists[number].append(sample)
        occurrences[sample.question] += 1
    return lists
