"""Recorded trajectories as conversations in texts, for trainers that tokenise by themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from docagent_rl.actions.base import StopCause
from docagent_rl.base.untrusted import INVISIBLE
from docagent_rl.envs.base import ImagePart, Observation, Role
from docagent_rl.envs.images import Picture
from docagent_rl.lab.sft.replay import observation_of
from docagent_rl.lab.sft.trajectories import Dropped
from docagent_rl.rollout.trajectory import Trajectory

ASSISTANT = "assistant"
SPELLING = re.compile(r"<(?=\||(?:image|video|audio)>)")
"""Where a text would spell a token of a chat (`<|im_end|>`) or the place of an image."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One message.

    Args:
        role: `system`, `user` or `assistant`; the assistant's are what the policy wrote.
        parts: texts and images, in order.
    """

    role: str
    parts: tuple[str | Picture, ...]

    @property
    def images(self) -> list[Picture]:
        """Those of the message, in order."""
        return [part for part in self.parts if not isinstance(part, str)]


def conversations(trajectory: Trajectory) -> list[list[Turn]] | Dropped:
    """The contexts of a trajectory, each ending with a turn of the policy; or why it cannot be told so.

    What documents and users wrote spells no token and no place of an image: an invisible character breaks
    such words, as in a rollout. Messages of one role in a row are one.

    Raises:
        UserError: the trajectory has no messages.
    """
    if trajectory.masked:
        return Dropped.MASKED
    if any(turn.stop != StopCause.END_OF_TURN.value for turn in trajectory.turns):
        return Dropped.CUT_OFF
    if any(not turn.text or SPELLING.search(turn.text) for turn in trajectory.turns):
        return Dropped.SPELLING
    contexts = [_messages(observation_of(trajectory.prompt))]
    for turn, following in zip(trajectory.turns, [*trajectory.turns[1:], None], strict=True):
        contexts[-1].append(Turn(ASSISTANT, (turn.text,)))
        if following is None or not turn.observation or turn.dropped:
            continue
        shown = _messages(observation_of(turn.observation))
        if following.row != turn.row:
            contexts.append(shown)
        else:
            contexts[-1] += shown
    told = [_joined(context) for context in contexts if any(turn.role == ASSISTANT for turn in context)]
    return told or Dropped.UNWRITTEN


def _messages(observation: Observation) -> list[Turn]:
    return [
        Turn(
            Role(message.role).value,
            tuple(
                part.image if isinstance(part, ImagePart) else SPELLING.sub(f"<{INVISIBLE}", part.text)
                for part in message.parts
            ),
        )
        for message in observation.messages
    ]


def _joined(turns: Sequence[Turn]) -> list[Turn]:
    joined: list[Turn] = []
    for turn in turns:
        if joined and joined[-1].role == turn.role:
            joined[-1] = Turn(turn.role, (*joined[-1].parts, *turn.parts))
        else:
            joined.append(turn)
    return joined
