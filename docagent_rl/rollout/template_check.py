"""Refuses chat templates by which turns cannot be rendered one at a time (`chat.ChatCodec`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.rollout.chat import ChatCodec

_TEXT = "Ab 12,  <search>c</search>\n\n\td & \"e\" 'é' {f}"
_SAID = "docagent-probe-turn"
_DAY = "docagent-probe-day"
Messages = list[dict[str, Any]]


def check_template(codec: ChatCodec) -> None:
    """See that the model's chat template writes every message as it is, and alike wherever it stands.

    White space around a message may go, a system prompt may be added where there is none, and thoughts of
    earlier turns may be left out: none of that changes a part of what has been rendered.

    Args:
        codec: of the model.

    Raises:
        UserError: it does not; names the first thing that it does instead.
    """
    for problem in _problems(codec):
        name = getattr(codec.tokenizer, "name_or_path", "") or "the model"
        raise UserError(
            f"the chat template of {name} {problem}. Trajectories are rendered a turn at a time, "
            "by different "
            "processes and on different days: name a template that does not do so, by "
            "actor_rollout_ref.model.custom_chat_template"
        )


def _problems(codec: ChatCodec) -> Iterator[str]:
    opening = _opening(codec)
    opened = codec.render(opening, generation=False)
    if opened.count(_TEXT) != len(opening):
        yield f"changes, drops or repeats the text of a message: {_TEXT!r} becomes part of {opened!r}"
    if codec.image_token_id is not None:
        parts = [{"type": "image"}, {"type": "text", "text": _TEXT}]
        shown = codec.render([{"role": "user", "content": parts}], generation=False)
        if shown.count(_TEXT) != 1 or codec.text_ids(shown).count(codec.image_token_id) != 1:
            yield f"loses an image or the text beside it, which become {shown!r}"
    if not codec.render([*opening, _said(1), _asked()], generation=False).startswith(opened):
        yield "rewrites earlier messages when others follow"
    if _DAY in codec.render(opening, generation=True, strftime_now=lambda _: _DAY):
        yield (
            "writes the date into the prompt, unless data.apply_chat_template_kwargs gives one (Llama 3 "
            "reads date_string)"
        )
    after = [_after(codec, turns) for turns in (1, 3)]
    if None in after:
        yield "changes, drops or repeats what the assistant said"
    elif after[0] != after[1]:
        yield f"writes messages by their position: {after[0]!r} after one turn, {after[1]!r} after three"
    elif codec.text_ids(after[0] or "")[:1] != [codec.end_of_turn_id]:
        yield "ends an assistant's turn otherwise when a message follows"
    elif not _ends_alike(codec, opening):
        yield "opens the assistant's first turn otherwise than later ones"


def _asked() -> dict[str, Any]:
    return {"role": "user", "content": _TEXT}


def _said(number: int) -> dict[str, Any]:
    return {"role": "assistant", "content": f"{_SAID}-{number}."}


def _opening(codec: ChatCodec) -> Messages:
    """System and user, or the user alone where a template takes no system prompt."""
    both = [{"role": "system", "content": _TEXT}, _asked()]
    try:
        codec.render(both, generation=False)
    except UserError:
        return both[1:]
    return both


def _after(codec: ChatCodec, turns: int) -> str | None:
    """What follows the last of some turns, the header of the next included; `None` where a text is lost."""
    talk = [each for number in range(turns) for each in (_asked(), _said(number))]
    before, found, after = codec.render([*talk, _asked()], generation=True).partition(talk[-1]["content"])
    return None if not found or talk[-1]["content"] in before + after or _TEXT not in after else after


def _ends_alike(codec: ChatCodec, opening: Messages) -> bool:
    headers = set()
    for talk in (opening, [*opening, _said(1), _asked()]):
        plain, open_ = (codec.render(talk, generation=generation) for generation in (False, True))
        headers.add(open_.removeprefix(plain) if open_.startswith(plain) else None)
    return len(headers) == 1 and None not in headers
