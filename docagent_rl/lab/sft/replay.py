"""Ledgers of recorded trajectories, built again without playing them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from docagent_rl.actions.base import StopCause
from docagent_rl.base.errors import UserError
from docagent_rl.envs.base import ImagePart, Message, Observation, Part, Role, TextPart
from docagent_rl.envs.images import Picture
from docagent_rl.lab.sft.pictures import read_picture
from docagent_rl.lab.sft.scripted import turn_ids
from docagent_rl.rollout.chat import ChatCodec
from docagent_rl.rollout.images import ImageEncoder, image_tokens
from docagent_rl.rollout.ledger import Placed, TurnLedger
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryTurn

UNLIMITED = 1 << 62
"""The limits of the run held when it was recorded."""


@dataclass(frozen=True, slots=True)
class PlacedPicture:
    """An image that was not drawn: where it is from, and what it costs.

    Args:
        ref: the image.
        num_tokens: its placeholders.
    """

    ref: Picture
    num_tokens: int


Place = Callable[[Sequence[Picture]], Awaitable[Sequence[Placed]]]
"""From the images of an observation to what stands for them in a ledger, in order."""


async def replay(
    trajectory: Trajectory, codec: ChatCodec, encoder: ImageEncoder | None, *, retokenise: bool = False
) -> list[TurnLedger]:
    """The contexts of a recorded trajectory, one training row each.

    Sampled ids are taken from the trajectory; what was shown is rendered again, so the model's tokenizer and
    processor, and the arguments of its chat template, must be those of the run. A trajectory that was
    recorded in texts alone (`recorded_in_texts`) has no ids: its turns are encoded, for whatever model.

    Args:
        trajectory: what was written.
        codec: of the model that sampled it; of any model for texts.
        encoder: over the store of the run; `None` for a text-only model.
        retokenise: encode the texts of a trajectory that has ids as well, for another model.

    Returns:
        Ledgers in order, without those in which nothing was sampled.

    Raises:
        UserError: the trajectory was masked, tokens come out in another number than recorded, or a turn is
            empty or spells a special token.
    """

    async def encoded(pictures: Sequence[Picture]) -> Sequence[Placed]:
        if encoder is None:
            raise UserError("the trajectory shows images, but the model has no image processor")
        return (await encoder.encode(pictures))[0]

    return await _replayed(trajectory, codec, encoded, retokenise)


def replay_sizes(trajectory: Trajectory, codec: ChatCodec, *, retokenise: bool = False) -> list[TurnLedger]:
    """As `replay`, with `PlacedPicture` in the place of images: nothing is drawn.

    Args:
        trajectory: what was written.
        codec: as there; its processor counts the tokens of images.
        retokenise: as there.

    Raises:
        UserError: as there.
    """

    async def counted(pictures: Sequence[Picture]) -> Sequence[Placed]:
        counts = image_tokens([picture.size for picture in pictures], codec.processor)
        return [PlacedPicture(ref, count) for ref, count in zip(pictures, counts, strict=True)]

    return asyncio.run(_replayed(trajectory, codec, counted, retokenise))


def recorded_in_texts(trajectory: Trajectory) -> bool:
    """Whether a chat endpoint played it, which tells texts and no tokens."""
    return not any(turn.token_ids for turn in trajectory.turns)


async def _replayed(
    trajectory: Trajectory, codec: ChatCodec, place: Place, retokenise: bool
) -> list[TurnLedger]:
    if trajectory.masked:
        raise UserError(f"trajectory {trajectory.uid}_{trajectory.number} was masked: it has no training row")
    texts = retokenise or recorded_in_texts(trajectory)
    prompt = observation_of(trajectory.prompt)
    ledgers = [await _open(prompt, codec, place)]
    if not texts:
        _expect(trajectory, ledgers[0].prompt_length, trajectory.prompt_tokens, "prompt")
    for number, turn in enumerate(trajectory.turns):
        ledgers[-1].add_turn(*_sampled(trajectory, turn, codec, texts))
        if not turn.observation or turn.dropped:
            continue
        shown = observation_of(turn.observation)
        if _starts_context(trajectory, number):
            ledgers.append(await _open(shown, codec, place))
            added = ledgers[-1].prompt_length
        else:
            added = await _follow(ledgers[-1], turn, shown, codec, place)
        if not texts:
            _expect(trajectory, added, turn.observation_tokens, f"observation {number + 1}")
    return [ledger for ledger in ledgers if ledger.sampled]


def _sampled(
    trajectory: Trajectory, turn: TrajectoryTurn, codec: ChatCodec, texts: bool
) -> tuple[list[int], list[float]]:
    """Ids and log-probs of a turn: those recorded, or its text with the end of turn if that was written."""
    if not texts:
        return turn.token_ids, turn.log_probs
    ids = turn_ids(turn.text, codec, UNLIMITED, str(trajectory.question_id))
    return (ids if turn.stop == StopCause.END_OF_TURN.value else ids[:-1]), []


def observation_of(messages: Sequence[Mapping[str, Any]]) -> Observation:
    """The inverse of `rollout.trajectory.describe`.

    Raises:
        UserError: a part is neither text nor image, or a role is unknown.
    """
    try:
        return Observation(
            tuple(Message(Role(m["role"]), tuple(_part(part) for part in m["parts"])) for m in messages)
        )
    except (KeyError, ValueError) as error:
        raise UserError(f"not the messages of a trajectory: {type(error).__name__}: {error}") from error


def _part(part: Mapping[str, Any]) -> Part:
    return ImagePart(read_picture(part["image"])) if "image" in part else TextPart(part["text"])


def _starts_context(trajectory: Trajectory, number: int) -> bool:
    following = trajectory.turns[number + 1 : number + 2]
    return bool(following) and following[0].row != trajectory.turns[number].row


async def _open(prompt: Observation, codec: ChatCodec, place: Place) -> TurnLedger:
    images = await place(prompt.images) if prompt.images else ()
    ids = codec.prompt_ids(prompt, images)
    return TurnLedger(ids, max_response=UNLIMITED, image_token_id=codec.image_token_id, images=images)


async def _follow(
    ledger: TurnLedger, turn: TrajectoryTurn, shown: Observation, codec: ChatCodec, place: Place
) -> int:
    images = await place(shown.images) if shown.images else ()
    closed = turn.stop == StopCause.END_OF_TURN.value
    ids = codec.observation_ids(shown, images, closed=closed, shown=len(ledger.images))
    ledger.add_observation(ids, images)
    return len(ids)


def _expect(trajectory: Trajectory, found: int, recorded: int, what: str) -> None:
    if found != recorded:
        raise UserError(
            f"trajectory {trajectory.uid}_{trajectory.number}: the {what} has {found} tokens, "
            f"{recorded} were "
            "recorded; use tokenizer, processor, arguments of the chat template and store of the run, or "
            "encode its texts anew (--retokenise)"
        )
