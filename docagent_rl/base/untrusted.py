"""Text that others wrote, on its way to a model that judges or plays a role.

Questions, documents and answers may spell the special tokens of the model that is asked, and so try
to open a turn of their own. Which model serves an endpoint is not known here, so the spellings of
all common families are broken by an invisible character, as `rollout.chat.ChatCodec` does for the
policy with its own tokenizer.
"""

import hashlib
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

INVISIBLE = "\u200b"
_MARK = 12
# the second is the full-width one of DeepSeek
_BAR = r"|\uff5c"
# special tokens that look like plain tags; all others are known by their shape
_NAMED = (
    "s|unk|pad|mask|sep|cls|bos|eos|eod|eop|eot|sop|bot|image|img|video|audio|box|quad|ref|point|file_sep"
    r"|\w{1,40}_(?:of|token)_\w{1,40}|\w{1,40}_(?:token|context|placeholder|id_\d{1,6})"
    r"|(?:unused|reserved|fim)_?\w{0,40}"
)
# Places inside of spellings. Nothing is ever removed, so that no spelling can form anew; every
# repetition is bounded, so that no text takes long.
_SEAMS = re.compile(
    # <|im_start|>, [|assistant|]
    rf"(?<=[<\[])(?=[{_BAR}])|(?<=[{_BAR}])(?=[>\]])"
    # [INST], [/INST], [gMASK], [TOOL_CALLS]
    r"|(?<=\[)(?=/?[A-Za-z_]{0,40}?[A-Z]{2}[A-Za-z_]{0,40}\])"
    # ]~b], [e~[
    r"|(?<=[\[\]])(?=~)|(?<=~)(?=[\[\]])|(?<=\[)(?=[a-z]~\[)"
    # <<SYS>>, <</SYS>>
    r"|(?<=<)(?=</?\w{1,40}>>)"
    # </s>, <end_of_turn>
    rf"|(?<=<)(?=/?(?i:{_NAMED})>)"
)
_TAGS = re.compile(r"(?<=<)(?=/?[A-Za-z_][\w.:-]{0,80}\s{0,9}/?>)")
_BROKEN = re.compile(rf"(?<=[<\[\]{_BAR}~]){INVISIBLE}")


def without_tokens(text: str) -> str:
    """Break every spelling of a special token in a text, which reads the same."""
    return _SEAMS.sub(INVISIBLE, text)


def without_joint_tokens(texts: Sequence[str]) -> list[str]:
    """Do the same for texts that somebody will join: two halves may spell what neither does."""
    return inserted(texts, (seam.start() for seam in _SEAMS.finditer("".join(texts))))


def inserted(texts: Sequence[str], places: Iterable[int]) -> list[str]:
    """Put invisible characters into the pieces of one text, before ascending places of the
    whole.
    """
    marks = list(places)
    result = []
    begin = 0
    for text in texts:
        here = [place - begin for place in marks if begin <= place < begin + len(text)]
        edges = [0, *here, len(text)]
        result.append(INVISIBLE.join(text[a:b] for a, b in itertools.pairwise(edges)))
        begin += len(text)
    return result


def neutralized(text: str) -> str:
    """Break special tokens, and tags without attributes as well: `<judge>`, `</think>`,
    `<answer>`.
    """
    return _TAGS.sub(INVISIBLE, without_tokens(text))


def neutralized_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a prompt's variables with texts, and texts in lists, neutralized."""
    return {name: _value(value) for name, value in values.items()}


def without_invisible(text: str) -> str:
    """Return a model's text without the invisible characters that it copied from neutralized
    text.
    """
    return _BROKEN.sub("", text)


def delimited(text: str) -> str:
    """Return the text between two lines that it cannot hold: they carry a mark made from the text
    itself.

    Equal texts have equal fences, so that equal requests stay equal. Prompt files use it as a
    filter: `{{ prediction | delimited }}`.
    """
    text = str(text)
    mark = ""
    while not mark or mark in text:
        mark = hashlib.sha256(f"{mark}{text}".encode("utf-8", "replace")).hexdigest()[:_MARK]
    return f"----- begin {mark} -----\n{text}\n----- end {mark} -----"


def _value(value: Any) -> Any:
    if isinstance(value, str):
        return neutralized(value)
    if isinstance(value, list | tuple):
        return [_value(item) for item in value]
    return value
