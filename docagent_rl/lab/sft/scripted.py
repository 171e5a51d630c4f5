"""Trajectories in which a script takes the policy's place, token by token as in training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from docagent_rl.base.errors import UserError
from docagent_rl.envs.base import DocEnv
from docagent_rl.rollout.chat import ChatCodec
from docagent_rl.rollout.images import EncodedImage, ImageEncoder
from docagent_rl.rollout.ledger import TurnLedger
from docagent_rl.rollout.rollout import Limits, Rollout, Sampled
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.samples.sample import Sample

WriteTurn = Callable[[Trajectory], str]
"""From the trajectory so far to the text of the next turn, without the end of turn."""


class TurnError(UserError):
    """The text of a turn is none that a policy could write: empty, or it spells a special token."""


@dataclass(frozen=True, slots=True)
class ScriptedTrajectory:
    """A played trajectory.

    Args:
        trajectory: what was played.
        ledgers: its contexts, one training row each.
    """

    trajectory: Trajectory
    ledgers: list[TurnLedger]


async def play_scripted(
    sample: Sample,
    write: WriteTurn,
    *,
    env: DocEnv,
    system: str,
    codec: ChatCodec,
    encoder: ImageEncoder | None,
    limits: Limits,
    number: int = 0,
) -> ScriptedTrajectory:
    """Play one question with the turns of a script.

    Everything but the sampling is that of a rollout: environment, chat template, images, ledger, limits. A
    turn is the encoding of its text and the end of turn.

    Args:
        sample: the question.
        write: the script.
        env: a fresh environment.
        system: name of the system.
        codec: chat turns as tokens.
        encoder: images as features; `None` for a text-only model.
        limits: token budgets.
        number: of the trajectory among those of the question.

    Raises:
        UserError: the question cannot be played, or a turn is longer than a policy could sample, is empty or
            spells a special token.
        InfrastructureError: a service failed.
    """
    trajectory = Trajectory(
        uid=sample.question_id,
        number=number,
        step=0,
        split="train",
        sample=sample.to_dict(),
        system=system,
    )

    async def generate(ids: list[int], images: list[EncodedImage], most: int) -> Sampled:
        return Sampled(turn_ids(write(trajectory), codec, most, sample.question_id))

    played = Rollout(env, codec, encoder, generate, limits, trajectory)
    return ScriptedTrajectory(trajectory, await played.play(sample))


def turn_ids(text: str, codec: ChatCodec, most: int, question_id: str) -> list[int]:
    """The tokens of a scripted turn, end of turn included.

    Args:
        text: what the script wrote.
        codec: of the model.
        most: tokens that a policy could sample here.
        question_id: for the message.

    Raises:
        TurnError: it is empty or spells a special token.
        UserError: see `play_scripted`.
    """
    ids = codec.tokenizer.encode(text, add_special_tokens=False)
    special = codec.control_ids | {codec.end_of_turn_id}
    if not ids or special.intersection(ids):
        raise TurnError(f"question {question_id}: the turn {text!r} is empty or spells a special token")
    if len(ids) + 1 > most:
        raise UserError(
            f"question {question_id}: a scripted turn has {len(ids) + 1} tokens, {most} are allowed; "
            "shorten it or raise docagent.rollout.turn_tokens and data.max_response_length"
        )
    return [*ids, codec.end_of_turn_id]
