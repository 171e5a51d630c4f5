"""Untrusted text on its way to a judge or another role model.

Questions, documents and answers may contain the special tokens of the model that reads them, and so
try to open a turn of their own. Which model serves an endpoint is not known here, so an invisible
character is inserted into the special tokens of all common model families. For the policy, whose
tokenizer is known, `rollout.chat.ChatCodec` does the same.
"""

import hashlib
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

INVISIBLE = "\u200b"
_MARK = 12
# the second one is DeepSeek's full-width bar
_BAR = r"|\uff5c"
# special tokens that look like plain tags; all others are recognized by their form
_NAMED = (
    "s|unk|pad|mask|sep|cls|bos|eos|eod|eop|eot|sop|bot|image|img|video|audio|box|quad|ref|point|file_sep"
    r"|\w{1,40}_(?:of|token)_\w{1,40}|\w{1,40}_(?:token|context|placeholder|id_\d{1,6})"
    r"|(?:unused|reserved|fim)_?\w{0,40}"
)
# Positions inside special tokens. Nothing is ever removed, so that no new special token can form;
# every repetition is bounded, so that matching takes linear time.
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
    """Break every special token in a text; the result looks the same to a reader."""
    return _SEAMS.sub(INVISIBLE, text)


def without_joint_tokens(texts: Sequence[str]) -> list[str]:
    """Do what `without_tokens` does for texts that will be joined, also across their borders."""
    return inserted(texts, (seam.start() for seam in _SEAMS.finditer("".join(texts))))


def inserted(texts: Sequence[str], places: Iterable[int]) -> list[str]:
    """Insert invisible characters into the pieces of a text, at ascending offsets of the whole."""
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
    """Break special tokens, and tags without attributes: `<judge>`, `</think>`, `<answer>`."""
    return _TAGS.sub(INVISIBLE, without_tokens(text))


def neutralized_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of a prompt with all texts neutralized, also those in lists."""
    return {name: _value(value) for name, value in values.items()}


def without_invisible(text: str) -> str:
    """Remove the invisible characters that a model has copied from neutralized text."""
    return _BROKEN.sub("", text)


def delimited(text: str) -> str:
    """Return the text between two marker lines, which the text cannot contain.

    The markers carry a hash of the text: equal texts get equal markers, so that equal requests stay
    equal. Prompt files use this function as a filter: `{{ prediction | delimited }}`.
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
