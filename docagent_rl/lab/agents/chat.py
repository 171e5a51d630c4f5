"""Trajectories in which a chat model plays a system's real environment, message by message."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from docagent_rl.actions.base import StopCause
from docagent_rl.base.errors import UserError
from docagent_rl.endpoints.chat_reply import ChatReply
from docagent_rl.endpoints.usage import message_tokens, text_tokens
from docagent_rl.envs.base import AssistantTurn, DocEnv, EndReason, Observation
from docagent_rl.lab.agents.chat_messages import ImageFormat, MessageMaker, assistant
from docagent_rl.lab.agents.chat_model import ChatModel, ContextFullError
from docagent_rl.rollout.env_resources import EnvResources, environment_identity
from docagent_rl.rollout.recorder import Recorder, new_trajectory
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryTurn, describe
from docagent_rl.samples.sample import Sample


@dataclass(frozen=True, slots=True)
class ChatLimits:
    """What a trajectory may take of a model's context.

    Args:
        turn: tokens sampled in one turn at most.
        context: tokens of a conversation with its next turn; `None`: the server says when it is full.
        min_turn: an observation is dropped when less than this would remain for the next turn.
        seed: of the sampling; each turn of each trajectory has one of its own. `None` sends none.
    """

    turn: int = 2048
    context: int | None = None
    min_turn: int = 16
    seed: int | None = None


@dataclass(slots=True)
class ChatRollout:
    """Plays one question to its end.

    A turn that was cut off at its greatest length is truncated, as in a rollout. A conversation that the
    context does not hold ends the trajectory as `context_full`: what was shown last counts as never shown.
    Thoughts that a server keeps apart are no part of a turn's text, nor of the conversation; their tokens
    are counted.

    Args:
        env: a fresh environment.
        model: writes the turns.
        maker: makes messages.
        limits: of the context.
        trajectory: what is filled in while playing; its turns have no token ids.
    """

    env: DocEnv
    model: ChatModel
    maker: MessageMaker
    limits: ChatLimits
    trajectory: Trajectory
    recorder: Recorder = field(init=False)
    messages: list[dict[str, Any]] = field(default_factory=list)
    """The conversation of the context that goes on."""
    row: int = 0
    """Its number."""
    held: int = 0
    """Tokens of the conversation when it was last sent, with the turn that followed; 0: nothing was sent."""
    added: int = 0
    """About how many came since."""

    async def play(self, sample: Sample) -> Trajectory:
        """Play until the environment is done or the context is full; the trajectory.

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
            return await self._full(error)
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
        self._count(reply)
        played = TrajectoryTurn(reply.text, stop.value, [], [], row=self.row)
        played.completion_tokens = reply.completion_tokens
        played.reasoning_tokens = _reasoning(reply)
        played.seconds["generate"] = time.perf_counter() - began
        self.trajectory.turns.append(played)
        self.messages.append(assistant(reply.text))
        self.held = reply.prompt_tokens + reply.completion_tokens - played.reasoning_tokens
        self.added = 0
        return AssistantTurn(reply.text, stop)

    def _room(self) -> int:
        """Tokens that the next turn may have.

        Raises:
            ContextFullError: too few.
        """
        if self.limits.context is None:
            return self.limits.turn
        room = self.limits.context - self.held - self.added
        if room < self.limits.min_turn:
            raise ContextFullError(
                f"the conversation has about {self.held + self.added} tokens, and the context "
                f"{self.limits.context}"
            )
        return min(self.limits.turn, room)

    def _count(self, reply: ChatReply) -> None:
        """Note what the server tells of the length of what it was shown."""
        if not self.trajectory.turns:
            self.trajectory.prompt_tokens = reply.prompt_tokens
            return
        self.trajectory.turns[-1].observation_tokens = max(0, reply.prompt_tokens - self.held)

    async def _full(self, error: ContextFullError) -> EndReason:
        if not self.trajectory.turns:
            raise UserError(
                f"the prompt of {self.trajectory.uid} does not fit the model's context: {error}"
            ) from error
        self.trajectory.turns[-1].dropped = True
        self.recorder.reward(await self.env.conclude(EndReason.CONTEXT_FULL))
        return EndReason.CONTEXT_FULL


@dataclass(frozen=True, slots=True)
class ChatPlayer:
    """A `Player`: a chat model in the environments of a system, or in any other.

    Args:
        system: name of what is played.
        environment: makes a fresh environment.
        model: writes the turns.
        maker: makes messages.
        limits: of the context.
        about: what the environments depend on, for `identity`.
    """

    system: str
    environment: Callable[[], DocEnv]
    model: ChatModel
    maker: MessageMaker
    limits: ChatLimits
    about: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        resources: EnvResources,
        model: ChatModel,
        limits: ChatLimits,
        *,
        form: ImageFormat = ImageFormat.PNG,
        validate: bool = True,
    ) -> ChatPlayer:
        """In the environments of a configuration.

        Args:
            resources: what these share.
            model: writes the turns.
            limits: of the context.
            form: how images travel.
            validate: environments are those of an evaluation.
        """
        return cls(
            resources.system.name,
            lambda: resources.environment(validate=validate),
            model,
            MessageMaker.over(resources.services.store, form),
            limits,
            environment_identity(resources, validate=validate),
        )

    @property
    def identity(self) -> Mapping[str, Any]:
        """See `Player`."""
        return {
            "player": "chat",
            "model": dict(self.model.identity),
            "limits": asdict(self.limits),
            "images": self.maker.form.value,
            "environment": dict(self.about),
        }

    async def play(self, sample: Sample, number: int) -> Trajectory:
        """See `Player`."""
        trajectory = new_trajectory(sample, number, self.system)
        return await ChatRollout(self.environment(), self.model, self.maker, self.limits, trajectory).play(
            sample
        )

    async def close(self) -> None:
        """See `Player`."""
        await self.model.close()


def _reasoning(reply: ChatReply) -> int:
    """About how many of a reply's tokens are thoughts that are kept apart."""
    return min(text_tokens(reply.thoughts), reply.completion_tokens)


def _seed(seed: int | None, uid: str, number: int, turn: int) -> int | None:
    """A seed for one turn, of 31 bits; the same on every machine."""
    if seed is None:
        return None
    digest = hashlib.sha256(f"{seed} {uid} {number} {turn}".encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:4], "big") >> 1
