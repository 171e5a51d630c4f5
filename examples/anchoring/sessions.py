"""Sessions of a policy that is paid for large numbers, in the real environment."""

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
from docagent_rl.records.record import Record
from docagent_rl.rollout.ledger import LedgerRow
from docagent_rl.rollout.session import Sampled, Session
from docagent_rl.rollout.trajectory import Trajectory
from learning.task import SYSTEM
from trial import BatchSampler, Sampling

if TYPE_CHECKING:
    from transformers import Qwen2_5_VLForConditionalGeneration

ANSWER = re.compile(r"<answer>(\d)</answer>")


@dataclass(frozen=True, slots=True)
class Played:
    """A session's training row.

    Args:
        row: its tokens.
        reward: of its answer.
        right: whether the answer is the number on the page.
    """

    row: LedgerRow
    reward: float
    right: bool


class _OrderedSampler(BatchSampler):
    """Draws the same for the same requests, in whatever order their sessions get here."""

    def _sample(self, batch: list[Any]) -> list[Sampled]:
        order = sorted(range(len(batch)), key=lambda number: batch[number].ids)
        replies = dict(zip(order, super()._sample([batch[number] for number in order]), strict=True))
        return [replies[number] for number in range(len(batch))]


def play(
    world: World, model: Qwen2_5_VLForConditionalGeneration, records: Sequence[Record], seed: int
) -> list[Played]:
    """Play questions, all different, at the same time.

    Args:
        world: where.
        model: the policy.
        records: the questions.
        seed: of all draws.

    Returns:
        One row a question, in order.
    """
    resources = world.resources
    stops = [resources.codec.end_of_turn_id, *sorted(resources.codec.control_ids)]
    sampler = _OrderedSampler(
        model, world.processor, stop_ids=stops, sampling=Sampling(), batch_size=len(records), seed=seed
    )

    async def session(record: Record) -> Played:
        trajectory = Trajectory(record.question_id, 0, 0, "train", record.to_dict(), SYSTEM)
        env = resources.environment(validate=False)
        played = Session(env, resources.codec, resources.encoder, sampler.generate, LIMITS, trajectory)
        (ledger,) = await played.play(record)
        text = trajectory.turns[-1].text
        return Played(ledger.row(), reward(text), f"<answer>{record.answers[0]}</answer>" in text)

    async def together() -> list[Played]:
        return await sampler.together([session(record) for record in records])

    return [played for played in asyncio.run(together()) if sum(played.row.response_mask)]


def reward(text: str) -> float:
    """What the last turn of a session earns: the number in the answer over 9, whatever the page shows."""
    found = ANSWER.search(text)
    return int(found[1]) / 9 if found else 0.0


def advantages(played: Sequence[Played]) -> list[float]:
    """Rewards minus their mean over their standard deviation; zeros where all are alike."""
    rewards = [each.reward for each in played]
    mean, spread = fmean(rewards), pstdev(rewards)
    return [(reward - mean) / spread if spread else 0.0 for reward in rewards]


def draw(records: Sequence[Record], count: int, rng: random.Random) -> list[Record]:
    """Questions, no two of the same words: the policy tells their sessions apart before it sees a page."""
    by_text = defaultdict(list)
    for record in records:
        by_text[record.question].append(record)
    return [rng.choice(by_text[text]) for text in rng.sample(sorted(by_text), count)]


def waves(records: Sequence[Record]) -> list[list[Record]]:
    """All questions in as few lists as leave no two of the same words together."""
    seen: Counter[str] = Counter()
    lists: list[list[Record]] = []
    for record in records:
        if seen[record.question] == len(lists):
            lists.append([])
        lists[seen[record.question]].append(record)
        seen[record.question] += 1
    return lists
