"""Ledgers of recorded trajectories, built again without playing them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from docagent_rl.actions.base import StopCause
from docagent_rl.data.pictures import read_picture
from docagent_rl.envs.base import ImagePart, Message, Observation, Part, Role, TextPart
from docagent_rl.errors import UserError
from docagent_rl.rollout.chat import ChatCodec
from docagent_rl.rollout.images import EncodedImage, ImageEncoder
from docagent_rl.rollout.ledger import TurnLedger
from docagent_rl.rollout.trajectory import Trajectory, TurnRecord


async def replay(trajectory: Trajectory, codec: ChatCodec, encoder: ImageEncoder | None) -> list[TurnLedger]:
    """The contexts of a recorded session, one training row each.

    Sampled ids are taken from the record; what was shown is rendered again, so the model's tokenizer and
    processor must be those of the run.

    Args:
        trajectory: the record.
        codec: of the model that sampled it.
        encoder: over the store of the run; `None` for a text-only model.

    Returns:
        Ledgers in order, without those in which nothing was sampled.

    Raises:
        UserError: the session was masked, or tokens come out in another number than recorded.
    """
    if trajectory.masked:
        raise UserError(f"session {trajectory.uid}_{trajectory.session} was masked: it has no training row")
    prompt = observation_of(trajectory.prompt)
    ledgers = [await _open(prompt, codec, encoder)]
    _expect(trajectory, ledgers[0].prompt_length, trajectory.prompt_tokens, "prompt")
    for number, turn in enumerate(trajectory.turns):
        ledgers[-1].add_turn(turn.token_ids, turn.log_probs)
        if not turn.observation or turn.dropped:
            continue
        shown = observation_of(turn.observation)
        if _starts_context(trajectory, number):
            ledgers.append(await _open(shown, codec, encoder))
            added = ledgers[-1].prompt_length
        else:
            added = await _follow(ledgers[-1], turn, shown, codec, encoder)
        _expect(trajectory, added, turn.observation_tokens, f"observation {number + 1}")
    return [ledger for ledger in ledgers if ledger.sampled]


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


async def _open(prompt: Observation, codec: ChatCodec, encoder: ImageEncoder | None) -> TurnLedger:
    images = await _encode(prompt, encoder)
    ids = codec.prompt_ids(prompt, images)
    # the limits of the run held when it was recorded
    return TurnLedger(ids, max_response=1 << 62, image_token_id=codec.image_token_id, images=images)


async def _follow(
    ledger: TurnLedger, turn: TurnRecord, shown: Observation, codec: ChatCodec, encoder: ImageEncoder | None
) -> int:
    images = await _encode(shown, encoder)
    ids = codec.observation_ids(shown, images, closed=turn.stop == StopCause.END_OF_TURN.value)
    ledger.add_observation(ids, images)
    return len(ids)


async def _encode(observation: Observation, encoder: ImageEncoder | None) -> list[EncodedImage]:
    if not observation.images:
        return []
    if encoder is None:
        raise UserError("the trajectory shows images, but the model has no image processor")
    images, _ = await encoder.encode(observation.images)
    return images


def _expect(trajectory: Trajectory, found: int, recorded: int, what: str) -> None:
    if found != recorded:
        raise UserError(
            f"session {trajectory.uid}_{trajectory.session}: the {what} has {found} tokens, {recorded} were "
            "recorded; use the tokenizer, the processor and the store of the run"
        )
