"""Trajectories in which a chat model plays a system's environment, message by message."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from docagent_rl.actions.base import StopCause
from docagent_rl.base.errors import UserError
from docagent_rl.endpoints.usage import message_tokens, text_tokens
from docagent_rl.envs.base import DocEnv, Observation
from docagent_rl.lab.agents.chat_model import (
    ChatModel,
    ContextFullError,
    ImageFormat,
    MessageMaker,
    assistant,
)
from docagent_rl.lab.agents.texts import EnvPlayer, play_texts, whole_turn
from docagent_rl.rollout.env_resources import EnvResources
from docagent_rl.rollout.recorder import new_trajectory
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryTurn
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
    messages: list[dict[str, Any]] = field(default_factory=list)
    """The conversation of the present context."""
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
        await play_texts(self.env, sample, self._write, self.trajectory, self._add)
        turns = self.trajectory.turns
        self.trajectory.response_tokens = sum(turn.sampled + turn.observation_tokens for turn in turns)
        return self.trajectory

    async def _write(self, trajectory: Trajectory) -> TrajectoryTurn | None:
        try:
            return await self._sample()
        except ContextFullError as error:
            if not trajectory.turns:
                raise UserError(
                    f"the prompt of {trajectory.uid} does not fit the model's context: {error}"
                ) from error
            trajectory.turns[-1].dropped = True
            return None

    async def _add(self, observation: Observation) -> None:
        messages = await asyncio.to_thread(self.maker.messages, observation)
        if observation.fresh and self.trajectory.turns:
            self.messages, self.held, self.added = [], 0, 0
        self.messages += messages
        self.added += await asyncio.to_thread(message_tokens, messages)

    async def _sample(self) -> TrajectoryTurn:
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
        played = whole_turn(reply.text, stop.value)
        played.completion_tokens = reply.completion_tokens
        # about how many of the tokens are thoughts that the server keeps apart
        played.reasoning_tokens = min(text_tokens(reply.thoughts), reply.completion_tokens)
        self.messages.append(assistant(reply.text))
        self.held = reply.prompt_tokens + reply.completion_tokens - played.reasoning_tokens
        self.added = 0
        return played

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


class ChatPlayer(EnvPlayer):
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
        super().__init__(resources, validate=validate)
        self.model, self.limits, self._wrap = model, limits, wrap
        self.maker = MessageMaker(resources.services.store, form)

    @property
    def identity(self) -> Mapping[str, Any]:
        """Model, limits, format of images and environments."""
        model, limits = dict(self.model.identity), asdict(self.limits)
        return self.identified("chat", model=model, limits=limits, images=self.maker.form.value)

    def environment(self, sample: Sample, number: int) -> DocEnv:
        """Open the environment of one trajectory."""
        env = super().environment(sample, number)
        return self._wrap(env) if self._wrap is not None else env

    async def play(self, sample: Sample, number: int) -> Trajectory:
        """Play one trajectory of a question."""
        trajectory = new_trajectory(sample, number, self.resources.system.name)
        env = self.environment(sample, number)
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
