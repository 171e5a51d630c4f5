"""One episode, token in and token out; the rollout server is a function that is handed in."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from docagent_rl.actions.base import StopCause
from docagent_rl.data.record import Record
from docagent_rl.envs.base import AssistantTurn, DocEnv, EndReason, Observation, RewardTerms
from docagent_rl.errors import UserError
from docagent_rl.rollout.chat import ChatCodec
from docagent_rl.rollout.images import EncodedImage, ImageEncoder
from docagent_rl.rollout.ledger import TurnLedger
from docagent_rl.rollout.offsets import token_range
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

    An observation that begins a new context (`Observation.fresh`) opens a new ledger: the session then yields
    several training rows.

    Args:
        env: a fresh environment.
        codec: chat turns as tokens.
        encoder: images as features; `None` for a text-only model.
        generate: the rollout server.
        limits: token budgets, of every row.
        trajectory: the record that is filled in while playing.
    """

    env: DocEnv
    codec: ChatCodec
    encoder: ImageEncoder | None
    generate: Generate
    limits: Limits
    trajectory: Trajectory
    ledgers: list[TurnLedger] = field(default_factory=list)
    """One ledger a context, in order."""

    async def play(self, sample: Record) -> list[TurnLedger]:
        """Play until the environment is done or the context is full; the ledgers.

        Raises:
            InfrastructureError: a service failed; the ledgers so far are worthless.
            UserError: the sample cannot be played, or its prompt exceeds the limit.
        """
        prompt = await self.env.begin(sample)
        if not await self._open(prompt):
            raise UserError(
                f"the prompt of {self.trajectory.record.get('question_id')} has more than "
                f"data.max_prompt_length={self.limits.prompt} tokens"
            )
        self.trajectory.prompt = describe(prompt)
        self.trajectory.prompt_tokens = self._ledger.prompt_length
        while (end := await self._turn()) is None:
            pass
        self._close(end)
        return self.ledgers

    @property
    def _ledger(self) -> TurnLedger:
        return self.ledgers[-1]

    async def _open(self, prompt: Observation) -> bool:
        """Begin a context; False, and no trace, when the prompt is too long."""
        images = await self._encode(prompt)
        ids = self.codec.prompt_ids(prompt, images)
        if len(ids) > self.limits.prompt:
            return False
        ledger = TurnLedger(
            ids, max_response=self.limits.response, image_token_id=self.codec.image_token_id, images=images
        )
        self.ledgers.append(ledger)
        return True

    async def _turn(self) -> EndReason | None:
        """Sample a turn, execute it and show what follows; the reason when that ends the session."""
        turn = await self._sample()
        record = self.trajectory.turns[-1]
        began = time.perf_counter()
        result = await self.env.step(turn)
        record.seconds["step"] = time.perf_counter() - began
        record.info = dict(result.info)
        self._pay(result.terms)
        if result.observation is None:
            return result.end
        if not await self._show(result.observation, turn.stop):
            self._pay(await self.env.conclude(EndReason.CONTEXT_FULL))
            return EndReason.CONTEXT_FULL
        return None

    async def _sample(self) -> AssistantTurn:
        began, ledger = time.perf_counter(), self._ledger
        pixels = [image.pixels for image in ledger.images if isinstance(image, EncodedImage)]
        sampled = await self.generate(ledger.token_ids, pixels, min(self.limits.turn, ledger.room))
        ids, log_probs, stop = split_stop(sampled, self.codec.end_of_turn_id, self.codec.control_ids)
        ledger.add_turn(ids, log_probs)
        text = self.codec.decode(ids)
        record = TurnRecord(text, stop.value, ids, log_probs, row=len(self.ledgers) - 1)
        record.seconds["generate"] = time.perf_counter() - began
        self.trajectory.turns.append(record)
        return AssistantTurn(text, stop)

    async def _show(self, observation: Observation, stop: StopCause) -> bool:
        record = self.trajectory.turns[-1]
        began = time.perf_counter()
        record.observation = describe(observation)
        if observation.fresh:
            fits = await self._open(observation)
            added = self._ledger.prompt_length
        else:
            images = await self._encode(observation)
            ids = self.codec.observation_ids(observation, images, closed=stop is StopCause.END_OF_TURN)
            fits = self._ledger.add_observation(ids, images, reserve=self.limits.min_turn)
            added = len(ids)
        record.seconds["encode"] = time.perf_counter() - began
        record.observation_tokens = added if fits else 0
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

    def _pay(self, terms: RewardTerms) -> None:
        record = self.trajectory.turns[-1]
        placed = []
        for term in terms.tokens:
            tokens = token_range(self.codec.decode, record.token_ids, term.span)
            if tokens is not None:
                placed.append((*tokens, term.value))
                record.token_terms.append((term.name, *tokens, term.value))
                record.terms[term.name] = record.terms.get(term.name, 0.0) + term.value
        self._ledger.pay(terms.reward, tokens=placed)
        record.reward += terms.reward + sum(value for *_, value in placed)
        record.terms.update(terms.values)

    def _close(self, end: EndReason) -> None:
        trajectory = self.trajectory
        trajectory.end = end.value
        trajectory.status = (Status.FINISHED if end.complete else Status.UNFINISHED).value
        trajectory.reward = sum(sum(t.rewards) for ledger in self.ledgers for t in ledger.turns)
        trajectory.metrics = self.env.metrics()
        trajectory.text = self.env.trajectory_text()
        trajectory.response_tokens = sum(ledger.response_length for ledger in self.ledgers)


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
