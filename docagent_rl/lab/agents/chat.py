"""Trajectories in which a chat model plays a system's environment, message by message."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from docagent_rl.actions.base import StopCause
from docagent_rl.base.errors import UserError
from docagent_rl.endpoints.usage import message_tokens, text_tokens
from docagent_rl.envs.base import AssistantTurn, DocEnv, EndReason, Observation
from docagent_rl.lab.agents.chat_model import (
    ChatModel,
    ContextFullError,
    ImageFormat,
    MessageMaker,
    assistant,
)
from docagent_rl.rollout.env_resources import EnvResources, environment_identity
from docagent_rl.rollout.recorder import Recorder, new_trajectory
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryTurn, describe
from docagent_rl.samples.sample import Sample


@dataclass(frozen=True, slots=True)
class ChatLimits:
    """The tokens that a trajectory may take of a model's context, and the seed of its sampling."""

    turn: int = 2048
    """Sampled in one turn at most."""
    context: int | None = None
    """Of a conversation with its next turn; `None`: the server says when it is full."""
    min_turn: int = 16
    """An observation is dropped when less than this would remain for the next turn."""
    seed: int | None = None
    """Each turn of each trajectory has a seed made of it; `None` sends none."""


@dataclass(slots=True)
class ChatRollout:
    """One question, played to its end into `trajectory`, whose turns have no token ids.

    A turn that was cut off at its greatest length is truncated, as in a rollout. A conversation that the
    context does not hold ends the trajectory as `context_full`: what was shown last counts as never shown.
    Thoughts that a server keeps apart are no part of a turn's text, nor of the conversation; their tokens
    are counted.
    """

    env: DocEnv
    model: ChatModel
    maker: MessageMaker
    limits: ChatLimits
    trajectory: Trajectory
    recorder: Recorder = field(init=False)
    messages: list[dict[str, Any]] = field(default_factory=list)
    """The conversation of the present context."""
    row: int = 0
    """Number of that context."""
    held: int = 0
    """Tokens of the conversation when it was last sent, with the turn that followed; 0: nothing was sent."""
    added: int = 0
    """Tokens that came since, by estimate."""

    async def play(self, sample: Sample) -> Trajectory:
        """Play until the environment is done or the context is full; return the trajectory.

        Raises:
            UserError: the sample cannot be played, or its prompt does not fit the context.
            BudgetError: what may be spent is spent.
            InfrastructureError: a service failed.
        """
        self.recorder = Recorder(self.env, self.trajectory)
        with self.recorder.recording():
            prompt = await self.env.reset(sample)
            self.trajectory.prompt = describe(prompt)
            await self._add(prompt)
            while (end := await self._turn()) is None:
                pass
            self.recorder.close(end, sample)
        turns = self.trajectory.turns
        self.trajectory.reward = sum(turn.reward for turn in turns)
        self.trajectory.response_tokens = sum(turn.sampled + turn.observation_tokens for turn in turns)
        return self.trajectory

    async def _turn(self) -> EndReason | None:
        try:
            turn = await self._sample()
        except ContextFullError as error:
            if not self.trajectory.turns:
                raise UserError(
                    f"the prompt of {self.trajectory.uid} does not fit the model's context: {error}"
                ) from error
            self.trajectory.turns[-1].dropped = True
            self.recorder.reward(await self.env.conclude(EndReason.CONTEXT_FULL))
            return EndReason.CONTEXT_FULL
        result = await self.recorder.step(turn)
        self.recorder.reward(result.terms)
        if result.observation is None:
            return result.end
        played, began = self.trajectory.turns[-1], time.perf_counter()
        played.observation = describe(result.observation)
        await self._add(result.observation)
        played.seconds["encode"] = time.perf_counter() - began
        return None

    async def _add(self, observation: Observation) -> None:
        messages = await asyncio.to_thread(self.maker.messages, observation)
        if observation.fresh and self.trajectory.turns:
            self.messages, self.held, self.added = [], 0, 0
            self.row += 1
        self.messages += messages
        self.added += await asyncio.to_thread(message_tokens, messages)

    async def _sample(self) -> AssistantTurn:
        began = time.perf_counter()
        number = len(self.trajectory.turns)
        seed = _seed(self.limits.seed, self.trajectory.uid, self.trajectory.number, number)
        reply = await self.model.reply(
            self.messages, most=self._room(), sample=self.trajectory.number, seed=seed
        )
        stop = StopCause.TRUNCATED if reply.cut_off else StopCause.END_OF_TURN
        # the server knows the length of what it was shown
        if number:
            self.trajectory.turns[-1].observation_tokens = max(0, reply.prompt_tokens - self.held)
        else:
            self.trajectory.prompt_tokens = reply.prompt_tokens
        played = TrajectoryTurn(reply.text, stop.value, [], [], row=self.row)
        played.completion_tokens = reply.completion_tokens
        # about how many of the tokens are thoughts that the server keeps apart
        played.reasoning_tokens = min(text_tokens(reply.thoughts), reply.completion_tokens)
        played.seconds["generate"] = time.perf_counter() - began
        self.trajectory.turns.append(played)
        self.messages.append(assistant(reply.text))
        self.held = reply.prompt_tokens + reply.completion_tokens - played.reasoning_tokens
        self.added = 0
        return AssistantTurn(reply.text, stop)

    def _room(self) -> int:
        """Return the tokens that the next turn may have.

        Raises:
            ContextFullError: there are fewer than `min_turn`.
        """
        if self.limits.context is None:
            return self.limits.turn
        length = self.held + self.added
        if self.limits.context - length < self.limits.min_turn:
            raise ContextFullError(
                f"the conversation has about {length} tokens, and the context {self.limits.context}"
            )
        return min(self.limits.turn, self.limits.context - length)


class ChatPlayer:
    """A `Player`: a chat model in the environments of a configuration; with `validate`, of an evaluation.

    `wrap` makes another environment of each.
    """

    def __init__(
        self,
        resources: EnvResources,
        model: ChatModel,
        limits: ChatLimits,
        *,
        form: ImageFormat = ImageFormat.PNG,
        validate: bool = True,
        wrap: Callable[[DocEnv], DocEnv] | None = None,
    ) -> None:
        self.model, self.limits = model, limits
        self.maker = MessageMaker(resources.services.store, form)
        self._resources, self._validate, self._wrap = resources, validate, wrap

    @property
    def identity(self) -> Mapping[str, Any]:
        """Model, limits, format of images and environments."""
        return {
            "player": "chat",
            "model": dict(self.model.identity),
            "limits": asdict(self.limits),
            "images": self.maker.form.value,
            "environment": environment_identity(self._resources, validate=self._validate),
        }

    async def play(self, sample: Sample, number: int) -> Trajectory:
        """Play one trajectory of a question."""
        trajectory = new_trajectory(sample, number, self._resources.system.name)
        env = self._resources.environment(validate=self._validate)
        env = self._wrap(env) if self._wrap is not None else env
        return await ChatRollout(env, self.model, self.maker, self.limits, trajectory).play(sample)

    async def close(self) -> None:
        """Close the model."""
        await self.model.close()


def _seed(seed: int | None, uid: str, number: int, turn: int) -> int | None:
    """Return a seed of 31 bits for one turn; the same on every machine."""
    if seed is None:
        return None
    digest = hashlib.sha256(f"{seed} {uid} {number} {turn}".encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:4], "big") >> 1
