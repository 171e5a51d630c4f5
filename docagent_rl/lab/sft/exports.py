"""Trajectories in the multi-turn formats of LLaMA-Factory and TRL, with their images as files.

Both tokenise on their own, and both train on whole messages: neither supports training on a part of
what a policy wrote.

- LLaMA-Factory (`formatting: sharegpt`): one example per context, with the loss on every assistant
  message and nothing else, unless `mask_history` or `train_on_prompt` are set.
- TRL: one row per turn (`prompt`, `completion`), with the loss only on the completion
  (`completion_only_loss`), which equals the mask in RL; earlier turns are read again for each row.
  Its collator for vision-language models does not mask by role, so that whole conversations would
  train on observations too.
"""

import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from docagent_rl.actions.base import StopCause
from docagent_rl.base.io import atomic_write
from docagent_rl.base.untrusted import INVISIBLE
from docagent_rl.documents.store import DocumentStore
from docagent_rl.envs.base import ImagePart, Observation, Part, Role
from docagent_rl.envs.images import Picture, render
from docagent_rl.lab.sft import TrajectoryFormat
from docagent_rl.lab.sft.ledgers import observation_of
from docagent_rl.lab.sft.trajectories import DropReason, RowCounts
from docagent_rl.rollout.trajectory import Trajectory

IMAGES = "images"
"""Folder of the images next to the examples; each file is named by its content."""
DATASET = "docagent"
"""Name of the data set in LLaMA-Factory's `dataset_info.json`."""
ASSISTANT = "assistant"
_PLACE = "<image>"
_SPELLING = re.compile(r"<(?=\||(?:image|video|audio)>)")
"""Matches text that spells a special token of a chat (`<|im_end|>`) or an image placeholder."""


FILES = {TrajectoryFormat.LLAMAFACTORY: "train.jsonl", TrajectoryFormat.TRL: "metadata.jsonl"}
"""File names of the examples; TRL's are loaded as an image folder (`datasets`), which requires that
name.
"""

DATASET_INFO = {
    DATASET: {
        "file_name": FILES[TrajectoryFormat.LLAMAFACTORY],
        "formatting": "sharegpt",
        "columns": {"messages": "messages", "images": "images"},
        "tags": {
            "role_tag": "role",
            "content_tag": "content",
            "user_tag": "user",
            "assistant_tag": ASSISTANT,
            "system_tag": "system",
        },
    }
}


def example_lines(
    trajectories: Iterable[Trajectory],
    form: TrajectoryFormat,
    store: DocumentStore,
    folder: Path,
    account: RowCounts,
) -> Iterator[bytes]:
    """Yield examples, one JSON line each, and write their images to `images/` in `folder` on the
    way.

    Existing images are kept. `account` is filled in; its rows are examples, and tokens are not
    counted.

    Raises:
        UserError: the store lacks the pages that were shown.
    """
    for trajectory in trajectories:
        contexts = conversations(trajectory)
        if isinstance(contexts, DropReason):
            account.dropped[contexts] += 1
            continue
        account.trajectories += 1
        for turns in contexts:
            images = [image for turn in turns for image in turn.images]
            for image in images:
                path = folder / _image_name(image)
                if not path.is_file():
                    buffer = io.BytesIO()
                    render(image, store).save(buffer, format="PNG")
                    atomic_write(path, buffer.getvalue())
            account.images += len(images)
            for example in _examples(turns, form):
                account.rows += 1
                yield f"{json.dumps(example, ensure_ascii=False)}\n".encode()


class Turn(NamedTuple):
    """A message of a role (`system`, `user`, or `assistant` for the policy): texts and images, in
    order.
    """

    role: str
    parts: tuple[str | Picture, ...]

    @property
    def images(self) -> list[Picture]:
        """The images of the message, in order."""
        return [part for part in self.parts if not isinstance(part, str)]


def conversations(trajectory: Trajectory) -> list[list[Turn]] | DropReason:
    """Return the contexts of a trajectory, each ending with a turn of the policy, or why there are
    none.

    Where texts of documents and users spell a special token or an image placeholder, an invisible
    character breaks it up, as in a rollout. Consecutive messages of the same role are joined.

    Raises:
        UserError: the trajectory has no messages.
    """
    if trajectory.masked:
        return DropReason.MASKED
    if any(turn.stop != StopCause.END_OF_TURN.value for turn in trajectory.turns):
        return DropReason.CUT_OFF
    if any(not turn.text or _SPELLING.search(turn.text) for turn in trajectory.turns):
        return DropReason.SPELLING
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
    written = [
        _joined(context) for context in contexts if any(turn.role == ASSISTANT for turn in context)
    ]
    return written or DropReason.UNWRITTEN


def _messages(observation: Observation) -> list[Turn]:
    return [
        Turn(Role(message.role).value, tuple(map(_exported, message.parts)))
        for message in observation.messages
    ]


def _exported(part: Part) -> Picture | str:
    """Return the picture of a part, or its text without spellings of special tokens."""
    if isinstance(part, ImagePart):
        return part.image
    return _SPELLING.sub(f"<{INVISIBLE}", part.text)


def _joined(turns: Sequence[Turn]) -> list[Turn]:
    joined: list[Turn] = []
    for turn in turns:
        if joined and joined[-1].role == turn.role:
            joined[-1] = Turn(turn.role, (*joined[-1].parts, *turn.parts))
        else:
            joined.append(turn)
    return joined


def _examples(turns: Sequence[Turn], form: TrajectoryFormat) -> Iterator[dict[str, Any]]:
    if form is TrajectoryFormat.LLAMAFACTORY:
        messages = [
            {
                "role": turn.role,
                "content": "".join(p if isinstance(p, str) else _PLACE for p in turn.parts),
            }
            for turn in turns
        ]
        yield {"messages": messages, "images": _names(turns)}
        return
    for number, turn in enumerate(turns):
        if turn.role == ASSISTANT:
            before = turns[:number]
            yield {
                "prompt": [_blocks(each) for each in before],
                "completion": [_blocks(turn)],
                "images_file_names": _names(before),
            }


def _names(turns: Sequence[Turn]) -> list[str]:
    return [_image_name(image) for turn in turns for image in turn.images]


def _image_name(image: Picture) -> str:
    return f"{IMAGES}/{image.key}.png"


def _blocks(turn: Turn) -> dict[str, Any]:
    content = [
        {"type": "text", "text": part} if isinstance(part, str) else {"type": "image", "text": None}
        for part in turn.parts
    ]
    return {"role": turn.role, "content": content}
