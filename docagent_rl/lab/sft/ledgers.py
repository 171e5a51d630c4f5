"""Token ledgers of recorded trajectories, rebuilt from their records."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from docagent_rl.actions.base import StopCause
from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import ImagePart, Message, Observation, Role, TextPart
from docagent_rl.envs.images import ImageRef, ImageSheet, Picture
from docagent_rl.rollout.chat import ChatCodec
from docagent_rl.rollout.images import image_tokens
from docagent_rl.rollout.ledger import TurnLedger
from docagent_rl.rollout.trajectory import Trajectory

_NO_LIMIT = 1 << 62
"""Effectively unlimited: the run's own limits were applied when it was recorded."""
_REF = TypeAdapter(ImageRef)
_SHEET = TypeAdapter(ImageSheet)


class TurnError(UserError):
    """A policy cannot have written this turn: it is empty, or spells a special token."""


def turn_ids(text: str, codec: ChatCodec, question_id: str) -> list[int]:
    """Return the tokens of a scripted turn, including the end of turn.

    Raises:
        TurnError: it is empty, or spells a special token.
    """
    ids = codec.tokenizer.encode(text, add_special_tokens=False)
    special = codec.control_ids | {codec.end_of_turn_id}
    if not ids or special.intersection(ids):
        raise TurnError(
            f"question {question_id}: the turn {text!r} is empty or spells a special token"
        )
    return [*ids, codec.end_of_turn_id]


@dataclass(frozen=True, slots=True)
class PlacedPicture:
    """An image that is not rendered: its reference, and the number of its placeholder tokens."""

    ref: Picture
    num_tokens: int


def replay(
    trajectory: Trajectory, codec: ChatCodec, *, retokenise: bool = False
) -> list[TurnLedger]:
    """Return the contexts of a recorded trajectory in order, one training row each, without
    rendering images.

    Contexts in which nothing was sampled are left out. Sampled ids are taken from the record;
    observations are encoded again, so tokenizer, processor and chat template arguments must be
    those of the run. A trajectory recorded only as text (from a chat endpoint) has no ids: its
    turns are encoded, for any model. With `retokenise` this is done even if there are ids.

    Raises:
        UserError: the trajectory was masked, the number of tokens differs from the recorded one, or
            a turn is empty or spells a special token.
    """
    if trajectory.masked:
        raise UserError(
            f"trajectory {trajectory.uid}_{trajectory.number} was masked: it has no training row"
        )
    texts = retokenise or not any(turn.token_ids for turn in trajectory.turns)
    ledgers = [_open(observation_of(trajectory.prompt), codec)]
    if not texts:
        _expect(trajectory, ledgers[0].prompt_length, trajectory.prompt_tokens, "prompt")
    for number, turn in enumerate(trajectory.turns, 1):
        ids = turn.token_ids
        log_probs = turn.log_probs
        closed = turn.stop == StopCause.END_OF_TURN.value
        if texts:
            ids = turn_ids(turn.text, codec, str(trajectory.question_id))
            log_probs = []
            ids = ids if closed else ids[:-1]
        ledgers[-1].add_turn(ids, log_probs)
        if not turn.observation or turn.dropped:
            continue
        shown = observation_of(turn.observation)
        following = trajectory.turns[number : number + 1]
        if following and following[0].row != turn.row:
            ledgers.append(_open(shown, codec))
            added = ledgers[-1].prompt_length
        else:
            images = _placed(shown, codec)
            ids = codec.observation_ids(shown, images, closed=closed, shown=len(ledgers[-1].images))
            ledgers[-1].add_observation(ids, images)
            added = len(ids)
        if not texts:
            _expect(trajectory, added, turn.observation_tokens, f"observation {number}")
    return [ledger for ledger in ledgers if ledger.sampled]


def _open(prompt: Observation, codec: ChatCodec) -> TurnLedger:
    images = _placed(prompt, codec)
    ids = codec.prompt_ids(prompt, images)
    return TurnLedger(
        ids, max_response=_NO_LIMIT, image_token_id=codec.image_token_id, images=images
    )


def _placed(shown: Observation, codec: ChatCodec) -> list[PlacedPicture]:
    counts = image_tokens([picture.size for picture in shown.images], codec.processor)
    return [PlacedPicture(ref, count) for ref, count in zip(shown.images, counts, strict=True)]


def _expect(trajectory: Trajectory, found: int, recorded: int, what: str) -> None:
    if found != recorded:
        raise UserError(
            f"trajectory {trajectory.uid}_{trajectory.number}: the {what} has {found} tokens, but "
            f"{recorded} were recorded; use the run's own tokenizer, processor, chat template "
            "arguments and store, or encode the texts again (--retokenise)"
        )


def observation_of(messages: Sequence[Mapping[str, Any]]) -> Observation:
    """Return the observation from its description by `rollout.trajectory.describe_messages`.

    Raises:
        UserError: a part is neither text nor image, or a role is unknown.
    """
    try:
        return Observation(
            tuple(
                Message(
                    Role(message["role"]),
                    tuple(
                        ImagePart(read_picture(part["image"]))
                        if "image" in part
                        else TextPart(part["text"])
                        for part in message["parts"]
                    ),
                )
                for message in messages
            )
        )
    except (KeyError, ValueError) as error:
        raise UserError(
            f"not the messages of a trajectory: {type(error).__name__}: {error}"
        ) from error


def read_picture(data: Mapping[str, Any]) -> Picture:
    """Return the picture from its description by `to_dict`.

    Raises:
        UserError: it does not describe a picture.
    """

    def reference(image: Mapping[str, Any]) -> ImageRef:
        return _REF.validate_python({**image, "page": PageRef.parse(image["page"])})

    try:
        if "tiles" not in data:
            return reference(data)
        tiles = [{**tile, "image": reference(tile["image"])} for tile in data["tiles"]]
        return _SHEET.validate_python({**data, "tiles": tiles})
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"not a picture: {type(error).__name__}: {error} in {json.dumps(data)}"
        ) from error
