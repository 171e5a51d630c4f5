"""A chat model that plays a system's environment, message by message."""

import asyncio
import hashlib
import io
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from operator import attrgetter
from typing import Any

import cachetools

from docagent_rl.actions.base import StopCause
from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents.store import DocumentStore
from docagent_rl.endpoints.chat_reply import ChatMessage, ChatReply, TooLongError
from docagent_rl.endpoints.endpoint import Sampling
from docagent_rl.endpoints.remote_model import RemoteModel
from docagent_rl.endpoints.usage import image_part, message_tokens, text_tokens
from docagent_rl.envs.base import ImagePart, Message, Observation, TextPart
from docagent_rl.envs.images import Picture, render
from docagent_rl.lab.agents.texts import EnvPlayer, whole_turn
from docagent_rl.rollout.env_resources import EnvResources
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryTurn
from docagent_rl.samples.sample import Sample

_CACHE_BYTES = 256 << 20


class ContextFullError(Exception):
    """The model's context does not hold the conversation."""


@dataclass(frozen=True, slots=True)
class ChatModel:
    """A model that continues conversations, many at a time; cached and budgeted as `remote`
    says.
    """

    remote: RemoteModel

    @property
    def identity(self) -> Mapping[str, Any]:
        """Everything that its replies depend on, JSON-ready: model and sampling, not the
        address.
        """
        endpoint = self.remote.endpoint
        return {
            "model": endpoint.model,
            "temperature": self.remote.temperature,
            "extra_body": dict(endpoint.extra_body),
        }

    async def reply(
        self, messages: Sequence[ChatMessage], *, most: int, sample: int, seed: int | None
    ) -> ChatReply:
        """Return the next turn, of `most` tokens at most, as the model wrote it.

        `sample` tells replies to the same messages apart; a seed is sent where the temperature is
        not 0.

        Raises:
            ContextFullError: the conversation is too long.
            BudgetError: what may be spent is spent.
            InfrastructureError: the model failed.
        """
        sampling = Sampling(max_tokens=most, seed=seed if self.remote.temperature else None)
        try:
            # any text is a turn: the environment judges it
            return await self.remote.ask(
                messages, lambda text: None, sampling=sampling, sample=sample, partial=True
            )
        except InfrastructureError as error:
            if isinstance(error.__cause__, TooLongError):
                raise ContextFullError(str(error.__cause__)) from error
            raise

    async def close(self) -> None:
        """Close the connection; may be called twice."""
        await self.remote.aclose()


@dataclass
class MessageMaker:
    """Makes messages of observations; images become `data:` URLs of PNGs, 256 MiB of which are
    cached.
    """

    store: DocumentStore
    _urls: cachetools.LRUCache[str, str] = field(
        default_factory=lambda: cachetools.LRUCache(_CACHE_BYTES, getsizeof=len),
        init=False,
        repr=False,
    )
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def messages(self, observation: Observation) -> list[dict[str, Any]]:
        """Return an observation's messages; texts alone are one string, as in a rollout. Blocks.

        Raises:
            UserError: the store does not hold a page as it was.
        """
        return [self._message(message) for message in observation.messages]

    def _message(self, message: Message) -> dict[str, Any]:
        role = message.role.value
        parts = message.parts
        if not any(isinstance(part, ImagePart) for part in parts):
            return {
                "role": role,
                "content": "".join(p.text for p in parts if isinstance(p, TextPart)),
            }
        content = [
            {"type": "image_url", "image_url": {"url": self._url(part.image)}}
            if isinstance(part, ImagePart)
            else {"type": "text", "text": part.text}
            for part in parts
        ]
        return {"role": role, "content": content}

    @cachetools.cachedmethod(
        attrgetter("_urls"), lambda _, picture: picture.key, attrgetter("_lock")
    )
    def _url(self, picture: Picture) -> str:
        buffer = io.BytesIO()
        render(picture, self.store).save(buffer, format="PNG", compress_level=1)
        return image_part(buffer.getvalue(), "image/png")["image_url"]["url"]


@dataclass(frozen=True, slots=True)
class ChatLimits:
    """The tokens that a trajectory may take of a model's context, and the seed of its sampling."""

    turn: int = 2048
    """Sampled in one turn at most."""
    context: int | None = None
    """Tokens of a conversation with its next turn; `None`: the server says when it is full."""
    min_turn: int = 16
    """An observation is dropped when less than this would remain for the next turn."""
    seed: int | None = None
    """Each turn of each trajectory has a seed made of it; `None` sends none."""


@dataclass(slots=True)
class Conversation:
    """A chat model's side of one trajectory, whose turns have no token ids.

    A turn that was cut off at its greatest length is truncated, as in a rollout. A conversation
    that the context does not hold ends the trajectory as `context_full`: what was shown last counts
    as never shown. Thoughts that a server keeps apart are no part of a turn's text, nor of the
    conversation; their tokens are counted.
    """

    model: ChatModel
    maker: MessageMaker
    limits: ChatLimits
    messages: list[dict[str, Any]] = field(default_factory=list)
    """The conversation of the present context."""
    held: int = 0
    """Tokens of the conversation when it was last sent, with the turn that followed; 0: nothing was
    sent.
    """
    added: int = 0
    """Tokens that came since, by estimate."""

    async def see(self, observation: Observation) -> None:
        """Add what the environment shows; a fresh context begins a conversation."""
        messages = await asyncio.to_thread(self.maker.messages, observation)
        if observation.fresh:
            self.messages = []
            self.held = 0
            self.added = 0
        self.messages += messages
        self.added += await asyncio.to_thread(message_tokens, messages)

    async def write(self, trajectory: Trajectory) -> TrajectoryTurn | None:
        """Return the model's next turn; `None`: the context is full.

        Raises:
            UserError: the prompt does not fit the context.
            BudgetError: what may be spent is spent.
            InfrastructureError: the model failed.
        """
        number = len(trajectory.turns)
        seed = _seed(self.limits.seed, trajectory.uid, trajectory.number, number)
        try:
            most = self._room()
            reply = await self.model.reply(
                self.messages, most=most, sample=trajectory.number, seed=seed
            )
        except ContextFullError as error:
            if not number:
                raise UserError(
                    f"the prompt of {trajectory.uid} does not fit the model's context: {error}"
                ) from error
            trajectory.turns[-1].dropped = True
            return None
        # the server knows the length of what it was shown
        if number:
            trajectory.turns[-1].observation_tokens = max(0, reply.prompt_tokens - self.held)
        else:
            trajectory.prompt_tokens = reply.prompt_tokens
        stop = StopCause.TRUNCATED if reply.cut_off else StopCause.END_OF_TURN
        turn = whole_turn(reply.text, stop.value)
        turn.completion_tokens = reply.completion_tokens
        # about how many of the tokens are thoughts that the server keeps apart
        turn.reasoning_tokens = min(text_tokens(reply.thoughts), reply.completion_tokens)
        self.messages.append({"role": "assistant", "content": reply.text})
        self.held = reply.prompt_tokens + reply.completion_tokens - turn.reasoning_tokens
        self.added = 0
        return turn

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
    """A `Player`: a chat model in the environments of a configuration; with `validate`, of an
    evaluation.
    """

    def __init__(
        self,
        resources: EnvResources,
        model: ChatModel,
        limits: ChatLimits,
        *,
        validate: bool = True,
    ) -> None:
        super().__init__(resources, validate=validate)
        self.model = model
        self.limits = limits
        self.maker = MessageMaker(resources.services.store)

    @property
    def identity(self) -> Mapping[str, Any]:
        """Model, limits, format of images and environments."""
        model = dict(self.model.identity)
        limits = asdict(self.limits)
        return self.identified("chat", model=model, limits=limits, images="png")

    async def play(self, sample: Sample, number: int) -> Trajectory:
        """Play one trajectory of a question."""
        talk = Conversation(self.model, self.maker, self.limits)
        trajectory = await self.played(sample, number, talk.write, talk.see)
        turns = trajectory.turns
        trajectory.response_tokens = sum(turn.sampled + turn.observation_tokens for turn in turns)
        return trajectory

    async def close(self) -> None:
        """Close the model."""
        await self.model.close()


def _seed(seed: int | None, uid: str, number: int, turn: int) -> int | None:
    """Return a seed of 31 bits for one turn; the same on every machine."""
    if seed is None:
        return None
    digest = hashlib.sha256(f"{seed} {uid} {number} {turn}".encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:4], "big") >> 1
