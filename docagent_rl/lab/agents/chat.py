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
    """The conversation does not fit the model's context."""


@dataclass(frozen=True, slots=True)
class ChatModel:
    """A model that continues conversations, many at a time; `remote` caches its replies and limits
    what they may cost.
    """

    remote: RemoteModel

    @property
    def identity(self) -> Mapping[str, Any]:
        """Everything that the replies depend on, JSON-ready: model and sampling, but not the
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
        """Return the model's next turn, of `most` tokens at most, exactly as it was written.

        `sample` distinguishes several replies to the same messages; a seed is sent only when the
        temperature is not 0.

        Raises:
            ContextFullError: the conversation is too long.
            BudgetError: the budget is spent.
            InfrastructureError: the model failed.
        """
        sampling = Sampling(max_tokens=most, seed=seed if self.remote.temperature else None)
        try:
            # accept any text: the environment decides whether it is a valid turn
            return await self.remote.ask(
                messages, lambda text: None, sampling=sampling, sample=sample, partial=True
            )
        except InfrastructureError as error:
            if isinstance(error.__cause__, TooLongError):
                raise ContextFullError(str(error.__cause__)) from error
            raise

    async def close(self) -> None:
        """Close the connection; may be called more than once."""
        await self.remote.aclose()


@dataclass
class MessageMaker:
    """Converts observations to chat messages; images become `data:` URLs of PNGs, of which up to
    256 MiB are cached.
    """

    store: DocumentStore
    _urls: cachetools.LRUCache[str, str] = field(
        default_factory=lambda: cachetools.LRUCache(_CACHE_BYTES, getsizeof=len),
        init=False,
        repr=False,
    )
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def messages(self, observation: Observation) -> list[dict[str, Any]]:
        """Return the messages of an observation. Blocks.

        Content without images is a single string, as in a rollout.

        Raises:
            UserError: a page in the store is missing or no longer the same.
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
    """Limits on the tokens of the model's context that a trajectory may use, and the seed."""

    turn: int = 2048
    """Most tokens sampled in one turn."""
    context: int | None = None
    """Most tokens of a conversation including its next turn; `None`: the server reports when its
    context is full.
    """
    min_turn: int = 16
    """An observation is dropped when less than this would remain for the next turn."""
    seed: int | None = None
    """The seed from which each turn of each trajectory derives its own; `None`: no seed is sent."""


@dataclass(slots=True)
class Conversation:
    """A chat model's side of one trajectory, whose turns have no token ids.

    A turn that reached its maximum length counts as truncated, as in a rollout. When the
    conversation no longer fits the context, the trajectory ends as `context_full`, and its last
    observation counts as never shown. Reasoning that a server returns separately belongs neither to
    the turn's text nor to the conversation, but its tokens are counted.
    """

    model: ChatModel
    maker: MessageMaker
    limits: ChatLimits
    messages: list[dict[str, Any]] = field(default_factory=list)
    """The conversation in the current context."""
    sent_tokens: int = 0
    """Tokens of the conversation when it was last sent, including the turn that followed; 0 before
    the first request.
    """
    unsent_tokens: int = 0
    """Estimated tokens of what was added since."""

    async def see(self, observation: Observation) -> None:
        """Add what the environment shows; a fresh context starts a new conversation."""
        messages = await asyncio.to_thread(self.maker.messages, observation)
        if observation.fresh:
            self.messages = []
            self.sent_tokens = 0
            self.unsent_tokens = 0
        self.messages += messages
        self.unsent_tokens += await asyncio.to_thread(message_tokens, messages)

    async def write(self, trajectory: Trajectory) -> TrajectoryTurn | None:
        """Return the model's next turn, or `None` when the context is full.

        Raises:
            UserError: the prompt does not fit the context.
            BudgetError: the budget is spent.
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
        # the server reports the exact length of what it was sent
        if number:
            trajectory.turns[-1].observation_tokens = max(0, reply.prompt_tokens - self.sent_tokens)
        else:
            trajectory.prompt_tokens = reply.prompt_tokens
        stop = StopCause.TRUNCATED if reply.cut_off else StopCause.END_OF_TURN
        turn = whole_turn(reply.text, stop.value)
        turn.completion_tokens = reply.completion_tokens
        # an estimate of how many of the tokens are reasoning that the server returns separately
        turn.reasoning_tokens = min(text_tokens(reply.thoughts), reply.completion_tokens)
        self.messages.append({"role": "assistant", "content": reply.text})
        self.sent_tokens = reply.prompt_tokens + reply.completion_tokens - turn.reasoning_tokens
        self.unsent_tokens = 0
        return turn

    def _room(self) -> int:
        """Return how many tokens the next turn may have.

        Raises:
            ContextFullError: fewer than `min_turn` are left.
        """
        if self.limits.context is None:
            return self.limits.turn
        length = self.sent_tokens + self.unsent_tokens
        if self.limits.context - length < self.limits.min_turn:
            raise ContextFullError(
                f"the conversation has about {length} tokens, but the context only "
                f"{self.limits.context}"
            )
        return min(self.limits.turn, self.limits.context - length)


class ChatPlayer(EnvPlayer):
    """A `Player` that has a chat model play in a configuration's environments; `validate` selects
    those of an evaluation.
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
        """Model, limits, image format and environments."""
        model = dict(self.model.identity)
        limits = asdict(self.limits)
        return self.identity_of("chat", model=model, limits=limits, images="png")

    async def play(self, sample: Sample, number: int) -> Trajectory:
        """Play one trajectory of a sample."""
        conversation = Conversation(self.model, self.maker, self.limits)
        trajectory = await self.play_turns(sample, number, conversation.write, conversation.see)
        turns = trajectory.turns
        trajectory.response_tokens = sum(turn.sampled + turn.observation_tokens for turn in turns)
        return trajectory

    async def close(self) -> None:
        """Close the model."""
        await self.model.close()


def _seed(seed: int | None, uid: str, number: int, turn: int) -> int | None:
    """Return a 31-bit seed for one turn; the same on every machine."""
    if seed is None:
        return None
    digest = hashlib.sha256(f"{seed} {uid} {number} {turn}".encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:4], "big") >> 1
