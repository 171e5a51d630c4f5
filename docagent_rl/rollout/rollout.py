"""The rollout of one trajectory in tokens; the rollout server is a function that is passed in."""

import asyncio
import bisect
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from docagent_rl.actions.base import StopCause
from docagent_rl.base.errors import UserError
from docagent_rl.envs.base import AssistantTurn, DocEnv, EndReason, Observation, RewardTerms
from docagent_rl.rollout.chat import ChatCodec
from docagent_rl.rollout.images import EncodedImage, ImageEncoder, sized
from docagent_rl.rollout.ledger import TurnLedger
from docagent_rl.rollout.recorder import Recorder
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryTurn, describe_messages
from docagent_rl.samples.sample import Sample


@dataclass(frozen=True, slots=True)
class Sampled:
    """The sampled ids of one turn, including the stop id, and their log-probabilities, if any."""

    token_ids: Sequence[int]
    log_probs: Sequence[float] = ()


Generate = Callable[[list[int], list[EncodedImage], int], Awaitable[Sampled]]
"""`(token ids so far, images, maximum tokens to sample) -> Sampled`.

Sampling stops at end-of-turn and control ids.
"""


@dataclass(frozen=True, slots=True)
class Limits:
    """Token budgets of a trajectory.

    Args:
        prompt: maximum tokens of the prompt.
        response: maximum tokens of all turns and observations together.
        turn: maximum tokens sampled in one turn.
        min_turn: an observation is dropped if it would leave fewer tokens for the next turn.
    """

    prompt: int
    response: int
    turn: int
    min_turn: int = 16


@dataclass(slots=True)
class Rollout:
    """The rollout of one trajectory, within the token limits of a row.

    An observation that starts a new context (`Observation.fresh`) opens a new ledger; the
    trajectory then gives several training rows.
    """

    env: DocEnv
    codec: ChatCodec
    encoder: ImageEncoder | None
    generate: Generate
    limits: Limits
    trajectory: Trajectory
    ledgers: list[TurnLedger] = field(default_factory=list)
    """One ledger per context, in order."""
    pending_reward: float = 0.0
    """Reward that is held back until the trajectory has a sampled token."""
    recorder: Recorder = field(init=False)
    """Records everything in the trajectory except its tokens."""

    async def play(self, sample: Sample) -> list[TurnLedger]:
        """Play until the environment is done or the context is full; return the ledgers.

        Raises:
            InfrastructureError: a service failed, or the user's reward function did
                (`RewardFunctionError`); the ledgers so far must be discarded.
            UserError: the sample cannot be played, or its prompt exceeds the limit.
            NotFiniteError: a reward term of the system is NaN or infinite.
        """
        self.recorder = Recorder(self.env, self.trajectory)
        with self.recorder.recording():
            return await self._play(sample)

    async def _play(self, sample: Sample) -> list[TurnLedger]:
        prompt = await self.env.reset(sample)
        if not await self._open(prompt):
            raise UserError(
                f"the prompt of {self.trajectory.sample.get('question_id')} has more than "
                f"data.max_prompt_length={self.limits.prompt} tokens"
            )
        self.trajectory.prompt = describe_messages(prompt)
        self.trajectory.prompt_tokens = self._ledger.prompt_length
        while (end := await self._turn()) is None:
            pass
        # in a thread, since the text by which trajectories are compared may have to be cut
        await asyncio.to_thread(self.recorder.close, end, sample)
        self.trajectory.reward = self._placed_reward
        self.trajectory.response_tokens = sum(ledger.response_length for ledger in self.ledgers)
        if (terms := await self.recorder.own_terms(sample)) is not None:
            self._add_reward(terms)
            self.trajectory.reward = self._placed_reward
        return self.ledgers

    @property
    def _placed_reward(self) -> float:
        """The total reward of all tokens in all contexts."""
        return sum(sum(turn.rewards) for ledger in self.ledgers for turn in ledger.turns)

    @property
    def _ledger(self) -> TurnLedger:
        return self.ledgers[-1]

    async def _open(self, prompt: Observation) -> bool:
        """Open a ledger for a new context; return False, without a trace, if the prompt is too
        long.
        """
        # count tokens before rendering: the overview of a long document takes seconds to render
        sizes = sized(prompt.images, self.codec.processor)
        # in a thread: trajectories that start together would block the event loop one after another
        ids = await asyncio.to_thread(self.codec.prompt_ids, prompt, sizes)
        if len(ids) > self.limits.prompt:
            return False
        images = await self._encode(prompt)
        ledger = TurnLedger(
            ids,
            max_response=self.limits.response,
            image_token_id=self.codec.image_token_id,
            images=images,
        )
        self.ledgers.append(ledger)
        return True

    async def _turn(self) -> EndReason | None:
        """Sample and execute a turn and show its observation; return the reason if that was the
        end.
        """
        turn = await self._sample()
        result = await self.recorder.step(turn)
        self._add_reward(result.terms)
        if result.observation is None:
            return result.end
        if not await self._show(result.observation, turn.stop):
            self._add_reward(await self.recorder.conclude(EndReason.CONTEXT_FULL))
            return EndReason.CONTEXT_FULL
        return None

    async def _sample(self) -> AssistantTurn:
        began = time.perf_counter()
        ledger = self._ledger
        images = [image for image in ledger.images if isinstance(image, EncodedImage)]
        sampled = await self.generate(ledger.token_ids, images, min(self.limits.turn, ledger.room))
        ids, log_probs, stop = split_stop(
            sampled, self.codec.end_of_turn_id, self.codec.control_ids
        )
        ledger.add_turn(ids, log_probs)
        text = self.codec.decode(ids)
        played = TrajectoryTurn(text, stop.value, ids, log_probs, row=len(self.ledgers) - 1)
        played.seconds["generate"] = time.perf_counter() - began
        self.trajectory.turns.append(played)
        return AssistantTurn(text, stop)

    async def _show(self, observation: Observation, stop: StopCause) -> bool:
        played = self.trajectory.turns[-1]
        began = time.perf_counter()
        played.observation = describe_messages(observation)
        if observation.fresh:
            fits = await self._open(observation)
            added = self._ledger.prompt_length
        else:
            sizes = sized(observation.images, self.codec.processor)
            closed = stop is StopCause.END_OF_TURN
            ids = await asyncio.to_thread(
                self.codec.observation_ids,
                observation,
                sizes,
                closed=closed,
                shown=len(self._ledger.images),
            )
            # check before rendering, so that images of a dropped observation are never rendered
            fits = self._ledger.fits(len(ids), reserve=self.limits.min_turn)
            if fits:
                images = await self._encode(observation)
                self._ledger.add_observation(ids, images, reserve=self.limits.min_turn)
            added = len(ids)
        played.seconds["encode"] = time.perf_counter() - began
        played.observation_tokens = added if fits else 0
        played.dropped = not fits
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

    def _add_reward(self, terms: RewardTerms) -> None:
        """Record the terms of the last turn and assign their reward to tokens.

        Reward is held back until the trajectory has a sampled token.
        """
        played = self.trajectory.turns[-1]
        placed = []
        self.pending_reward += terms.reward
        for term in terms.tokens:
            tokens = token_range(self.codec.decode, played.token_ids, term.span)
            if tokens is None:
                self.pending_reward += term.reward
                continue
            placed.append((*tokens, term.reward))
            played.token_terms.append((term.name, *tokens, term.value))
        self._ledger.add_reward(0.0, tokens=placed)
        self.recorder.reward(terms)
        carrier = next((ledger for ledger in reversed(self.ledgers) if ledger.sampled), None)
        if carrier is not None:
            carrier.add_reward(self.pending_reward)
            self.pending_reward = 0.0


def split_stop(
    sampled: Sampled, end_of_turn_id: int, control_ids: frozenset[int]
) -> tuple[list[int], list[float], StopCause]:
    """Return the sampled ids and log-probs without control ids, and why sampling stopped.

    An end-of-turn id is kept, since the policy chose it. Everything from the first control id on is
    dropped, so that the number of placeholders always matches the number of image features.
    """
    ids = list(sampled.token_ids)
    log_probs = list(sampled.log_probs)
    cut = next((n for n, token_id in enumerate(ids) if token_id in control_ids), None)
    if cut is not None:
        return ids[:cut], log_probs[:cut], StopCause.CONTROL_TOKEN
    ended = bool(ids) and ids[-1] == end_of_turn_id
    return ids, log_probs, StopCause.END_OF_TURN if ended else StopCause.TRUNCATED


Decode = Callable[[Sequence[int]], str]

_REPLACEMENT = "\ufffd"


def token_range(
    decode: Decode, token_ids: Sequence[int], span: tuple[int, int]
) -> tuple[int, int] | None:
    """Find the tokens that cover a character span of the decoded turn.

    A token that straddles a border of the span is included. The borders are found by bisection over
    decoded prefixes, with `O(log t)` decodings of at most `t` tokens.

    Args:
        decode: decodes ids to the text to which the span refers.
        token_ids: `(t,)`, the sampled ids.
        span: half-open `[start, end)` in characters of `decode(token_ids)`.

    Returns:
        Half-open `[first, end)` token range; `None` if the span contains no character of the turn.
    """
    start = max(span[0], 0)
    end = min(span[1], len(decode(token_ids)))
    if start >= end:
        return None

    def text_length(count: int) -> int:
        # a character that is split between two tokens decodes to replacement characters
        return len(decode(token_ids[:count]).rstrip(_REPLACEMENT))

    counts = range(len(token_ids))
    first = bisect.bisect_right(counts, start, key=text_length) - 1
    return first, bisect.bisect_left(counts, end, key=text_length)
