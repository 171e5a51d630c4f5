"""Trajectories in the multi-turn formats of LLaMA-Factory and TRL, with their images as files.

Both tokenise by themselves. Both train on whole messages: of what a policy wrote, neither knows parts.

- LLaMA-Factory (`formatting: sharegpt`): one example a context, loss on every assistant message and nothing
  else, unless `mask_history` or `train_on_prompt` are set.
- TRL, `messages`: one example a context. Its collator for vision-language models knows no mask of roles
  (`assistant_only_loss` is refused), so the loss is on prompts and observations too.
- TRL, one row a turn (`prompt`, `completion`): the loss is on the completion alone (`completion_only_loss`),
  which is the mask of RL; earlier turns are read again for each.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from docagent_rl.base.io import atomic_write
from docagent_rl.documents import DocumentStore
from docagent_rl.envs.delivery import render
from docagent_rl.envs.images import Picture
from docagent_rl.lab.sft.conversations import ASSISTANT, Turn, conversations
from docagent_rl.lab.sft.trajectories import Account, Dropped
from docagent_rl.rollout.trajectory import Trajectory

IMAGES = "images"
"""Folder of the images beside the examples; each is named by its content."""
DATASET = "docagent"
"""Name of the data set in LLaMA-Factory's `dataset_info.json`."""
_PLACE = "<image>"


class TrajectoryFormat(StrEnum):
    """Whose trainer reads the trajectories."""

    LLAMAFACTORY = "llamafactory"
    TRL = "trl"


FILES = {TrajectoryFormat.LLAMAFACTORY: "train.jsonl", TrajectoryFormat.TRL: "metadata.jsonl"}
"""The examples; TRL's are read as an image folder (`datasets`), whose files of examples are named so."""

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
    account: Account,
    *,
    each_turn: bool = False,
) -> Iterator[bytes]:
    """Examples, one JSON line each; their images are written as they come.

    Args:
        trajectories: read one at a time.
        form: whose format.
        store: the documents that were shown.
        folder: of the export; images go to `images/` in it, and those that are there stay.
        account: is filled in; its rows are examples, and tokens are not counted.
        each_turn: of TRL, one row a turn instead of one a context.

    Raises:
        UserError: the store has not the pages that were shown.
    """
    for trajectory in trajectories:
        told = conversations(trajectory)
        if isinstance(told, Dropped):
            account.dropped[told] += 1
            continue
        account.trajectories += 1
        for turns in told:
            images = [image for turn in turns for image in turn.images]
            for image in images:
                write_image(image, store, folder)
            account.images += len(images)
            for example in _examples(turns, form, each_turn):
                account.rows += 1
                yield f"{json.dumps(example, ensure_ascii=False)}\n".encode()


def write_image(image: Picture, store: DocumentStore, folder: Path) -> Path:
    """Write an image by the name of its content, unless it is there.

    Raises:
        UserError: the store has not the page that was shown.
    """
    path = folder / image_name(image)
    if not path.is_file():
        buffer = io.BytesIO()
        render(image, store).save(buffer, format="PNG")
        atomic_write(path, buffer.getvalue())
    return path


def image_name(image: Picture) -> str:
    """Path of an image in the folder of an export."""
    return f"{IMAGES}/{image.key}.png"


def _examples(turns: Sequence[Turn], form: TrajectoryFormat, each_turn: bool) -> Iterator[dict[str, Any]]:
    if form is TrajectoryFormat.LLAMAFACTORY:
        messages = [{"role": turn.role, "content": _text(turn)} for turn in turns]
        yield {"messages": messages, "images": _names(turns)}
    elif not each_turn:
        yield {"messages": [_blocks(turn) for turn in turns], "images_file_names": _names(turns)}
    else:
        for number, turn in enumerate(turns):
            if turn.role == ASSISTANT:
                before = turns[:number]
                yield {
                    "prompt": [_blocks(each) for each in before],
                    "completion": [_blocks(turn)],
                    "images_file_names": _names(before),
                }


def _names(turns: Sequence[Turn]) -> list[str]:
    return [image_name(image) for turn in turns for image in turn.images]


def _text(turn: Turn) -> str:
    return "".join(part if isinstance(part, str) else _PLACE for part in turn.parts)


def _blocks(turn: Turn) -> dict[str, Any]:
    content = [
        {"type": "text", "text": part} if isinstance(part, str) else {"type": "image", "text": None}
        for part in turn.parts
    ]
    return {"role": turn.role, "content": content}
