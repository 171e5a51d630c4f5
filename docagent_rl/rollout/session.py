"""One episode, token in and token out; the rollout server is a function that is handed in."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from docagent_rl.actions.base import StopCause
from docagent_rl.data.record import Record
from docagent_rl.envs.base import AssistantTurn, DocEnv, EndReason, Observation, RewardTerms
from docagent_rl.errors import UserError
from docagent_rl.rollout.chat import ChatCodec
from docagent_rl.rollout.images import EncodedImage, ImageEncoder
from docagent_rl.rollout.ledger import TurnLedger
from docagent_rl.rollout.trajectory import Status, Trajectory, TurnRecord, describe

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, slots=True)
class Sampled:
    """What the rollout server returned for one turn.

    Args:
        token_ids: sampled ids, stop id included.
        log_probs: their log-probabilities, or empty.
    """

    token_ids: Sequence[int]
    log_probs: Sequence[float] = ()


Generate = Callable[[list[int], "list[Image]", int], Awaitable[Sampled]]
"""`(token ids so far, images, most tokens to sample) -> Sampled`; stops at end-of-turn and control ids"""


@dataclass(frozen=True, slots=True)
class Limits:
    """Token budgets of a session.

    Args:
        prompt: most tokens of the prompt.
        response: most tokens of all turns and observations together.
        turn: most tokens sampled in one turn.
        min_turn: an observation is dropped when less than this would remain for the next turn.
    """

    prompt: int
    response: int
    turn: int
    min_turn: int = 16


@dataclass(slots=True)
class Session:
    """Plays one question to its end.

    Args:
        env: a fresh environment.
        codec: chat turns as tokens.
        encoder: images as features; `None` for a text-only model.
        generate: the rollout server.
        limits: token budgets.
        trajectory: the record that is filled in while playing.
    """

    env: DocEnv
    codec: ChatCodec
    encoder: ImageEncoder | None
    generate: Generate
    limits: Limits
    trajectory: Trajectory

    async def play(self, sample: Record) -> TurnLedger:
        """Play until the environment is done or the context is full.

        Raises:
            InfrastructureError: a service failed; the ledger so far is worthless.
            UserError: the sample cannot be played, or its prompt exceeds the limit.
        """
        prompt = self.env.reset(sample)
        ledger = await self._open(prompt)
        while (end := await self._turn(ledger)) is None:
            pass
        self._close(ledger, end)
        return ledger

    async def _open(self, prompt: Observation) -> TurnLedger:
        images = await self._encode(prompt)
        ids = self.codec.prompt_ids(prompt, images)
        if len(ids) > self.limits.prompt:
            raise UserError(
                f"the prompt of {self.trajectory.record.get('question_id')} has {len(ids)} tokens, more than "
                f"data.max_prompt_length={self.limits.prompt}"
            )
        self.trajectory.prompt = describe(prompt)
        self.trajectory.prompt_tokens = len(ids)
        return TurnLedger(
            ids, max_response=self.limits.response, image_token_id=self.codec.image_token_id, images=images
        )

    async def _turn(self, ledger: TurnLedger) -> EndReason | None:
        """Sample a turn, execute it and show what follows; the reason when that ends the session."""
        turn = await self._sample(ledger)
        record = self.trajectory.turns[-1]
        began = time.perf_counter()
        result = await self.env.step(turn)
        record.seconds["step"] = time.perf_counter() - began
        record.info = dict(result.info)
        self._pay(ledger, result.terms)
        if result.observation is None:
            return result.end
        if not await self._show(ledger, result.observation, turn.stop):
            self._pay(ledger, await self.env.conclude(EndReason.CONTEXT_FULL))
            return EndReason.CONTEXT_FULL
        return None

    async def _sample(self, ledger: TurnLedger) -> AssistantTurn:
        began = time.perf_counter()
        pixels = [image.pixels for image in ledger.images if isinstance(image, EncodedImage)]
        sampled = await self.generate(ledger.token_ids, pixels, min(self.limits.turn, ledger.room))
        ids, log_probs, stop = split_stop(sampled, self.codec.end_of_turn_id, self.codec.control_ids)
        ledger.add_turn(ids, log_probs)
        text = self.codec.decode(ids)
        record = TurnRecord(text, stop.value, ids, log_probs)
        record.seconds["generate"] = time.perf_counter() - began
        self.trajectory.turns.append(record)
        return AssistantTurn(text, stop)

    async def _show(self, ledger: TurnLedger, observation: Observation, stop: StopCause) -> bool:
        record = self.trajectory.turns[-1]
        began = time.perf_counter()
        images = await self._encode(observation)
        ids = self.codec.observation_ids(observation, images, closed=stop is StopCause.END_OF_TURN)
        record.seconds["encode"] = time.perf_counter() - began
        record.observation = describe(observation)
        fits = ledger.add_observation(ids, images, reserve=self.limits.min_turn)
        record.observation_tokens = len(ids) if fits else 0
        record.dropped = not fits
        return fits

    async def _encode(self, observation: Observation) -> list[EncodedImage]:
        refs = observation.images
        if not refs:
            return []
        if self.encoder is None:
            raise UserError("the environment shows images, but the model has no image processor")
        images, fresh = await self.encoder.encode(refs)
        self.trajectory.image_preprocessings += fresh
        return images

    def _pay(self, ledger: TurnLedger, terms: RewardTerms) -> None:
        ledger.pay(terms.reward)
        record = self.trajectory.turns[-1]
        record.reward += terms.reward
        record.terms.update(terms.values)

    def _close(self, ledger: TurnLedger, end: EndReason) -> None:
        trajectory = self.trajectory
        trajectory.end = end.value
        trajectory.status = (Status.FINISHED if end.complete else Status.UNFINISHED).value
        trajectory.reward = sum(sum(turn.rewards) for turn in ledger.turns)
        trajectory.metrics = self.env.metrics()
        trajectory.response_tokens = ledger.response_length


def split_stop(
    sampled: Sampled, end_of_turn_id: int, control_ids: frozenset[int]
) -> tuple[list[int], list[float], StopCause]:
    """Sampled ids without a trailing control id, and why sampling ended.

    An end-of-turn id is kept: the policy chose it. Everything from the first control id on is dropped, so
    that placeholders and image features always match in number.
    """
    ids, log_probs = list(sampled.token_ids), list(sampled.log_probs)
    cut = next((n for n, token_id in enumerate(ids) if token_id in control_ids), None)
    if cut is not None:
        return ids[:cut], log_probs[:cut], StopCause.CONTROL_TOKEN
    ended = bool(ids) and ids[-1] == end_of_turn_id
    return ids, log_probs, StopCause.END_OF_TURN if ended else StopCause.TRUNCATED
