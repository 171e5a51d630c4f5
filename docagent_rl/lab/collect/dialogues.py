"""Dialogues that UniDoc-RL released for fine-tuning: texts of a teacher, and the images it saw.

Their form is that of the release's converter (`synthetic_data/convert_to_llamafactory.py`): rows
with `messages` (`role`, `content`) and `images`, the paths of the images for which `<image>` stands
in the messages, in order. Rows of its generator (`cot_generator.py`), in which images of one search
are a list of their own and a last message says what the teacher's judge found, are read as well.
"""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.lab.collect.rules import Rejection
from docagent_rl.lab.importers.native import image_page
from docagent_rl.lab.importers.source import ImportSource
from docagent_rl.samples.sample import Page, Sample, Split

_FILES = ("*_sft*.json* *_cot*.json*", "*/*_sft*.json* */*_cot*.json*", "*.json *.jsonl *.parquet")
"""`unidoc_sft.json` in the release's README, `unidoc_cot.json` in its `dataset_info.json`."""
_PLACE = "<image>"
_VERDICT = re.compile(r"The judge is (YES|NO)\.")
_MARKER = "**User question: "
"""Begins the question at the end of the release's prompt (`SYSTEM_PROMPT`)."""
_LAST_TAG = re.compile(r"<(search|select|bbox|answer)>((?:(?!<\1>).)*)</\1>\s*$", re.DOTALL)


class DialogueError(UserError):
    """A dialogue that gives no trajectory; `reason` is what it is counted under."""

    def __init__(self, reason: Rejection, detail: str) -> None:
        super().__init__(f"{reason.value}: {detail}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Exchange:
    """A turn of the teacher, and the images that it was shown next."""

    text: str
    action: str
    """The tag of its action: `search`, `select`, `bbox` or `answer`."""
    images: tuple[str, ...]
    """Paths, as in the file."""

    @property
    def pages(self) -> tuple[Page, ...]:
        """The pages that a search or a selection showed; empty after another action.

        Raises:
            DialogueError: an image is not named after a page.
        """
        if self.action not in ("search", "select"):
            return ()
        try:
            return tuple(map(image_page, self.images))
        except ValueError as error:
            raise DialogueError(Rejection.NO_PAGE, str(error)) from error


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A dialogue that has the form of a trajectory; whether it plays, the environment decides."""

    sample: Sample
    """Its question. The reference answer is the teacher's own, which its judge accepted, and the
    evidence are the pages that it selected: the release has neither.
    """
    exchanges: tuple[Exchange, ...]

    @property
    def pages(self) -> frozenset[Page]:
        """All pages that it shows."""
        return frozenset(page for exchange in self.exchanges for page in exchange.pages)


@dataclass(slots=True)
class Dialogues:
    """The dialogues of a download, and the rows that are none."""

    found: dict[str, Dialogue] = field(default_factory=dict)
    """By the id of their question."""
    rejected: dict[str, DialogueError] = field(default_factory=dict)
    """By file and row."""

    def digest(self) -> str:
        """Return the SHA-256 of the dialogues: a run is resumed with the same ones only."""
        digest = hashlib.sha256()
        for name, dialogue in self.found.items():
            turns = [asdict(exchange) for exchange in dialogue.exchanges]
            digest.update(json.dumps([name, turns]).encode() + b"\n")
        return digest.hexdigest()


def read_dialogues(path: Path) -> Dialogues:
    """Read the dialogues in a file or a folder.

    Raises:
        UserError: a file is damaged, or contains no dialogue.
    """
    source = ImportSource(path)
    dialogues = Dialogues()
    for file in source.require(*_FILES):
        for number, values in enumerate(source.rows(file)):
            name = f"{source.label(file)}#{number:06d}"
            try:
                dialogues.found[name] = read_dialogue(values, name, number)
            except DialogueError as error:
                dialogues.rejected[name] = error
    if not dialogues.found:
        first = next(iter(dialogues.rejected.values()), "it has no rows")
        raise UserError(f"{path}: no dialogue in it can be replayed; the first row: {first}")
    return dialogues


def read_dialogue(values: Any, name: str, row: int) -> Dialogue:
    """Return a row of a file as a dialogue; its question gets the id `name`.

    Raises:
        DialogueError: the row is not a dialogue, or not one that ends with an accepted answer.
    """
    messages, images = _content(values)
    if verdict := _VERDICT.fullmatch(messages[-1][1].strip()):
        if verdict[1] == "NO":
            raise DialogueError(Rejection.JUDGED_WRONG, "its last message says so")
        messages = messages[:-1]
    exchanges = tuple(_exchanges(messages, images))
    last = exchanges[-1] if exchanges else None
    if last is None or last.action != "answer" or last.images:
        raise DialogueError(Rejection.UNFINISHED, "its last turn has no answer")
    sample = _sample(_question(messages[0][1]), exchanges, name, row, values.get("uid"))
    try:
        sample.to_json()
    except UserError:
        detail = "a text has half a character (a lone surrogate)"
        raise DialogueError(Rejection.NO_DIALOGUE, detail) from None
    return Dialogue(sample, exchanges)


def _content(values: Any) -> tuple[list[tuple[str, str]], list[str]]:
    """Return role and text of each message, and the paths of the images."""
    odd = DialogueError(Rejection.NO_DIALOGUE, "it has no messages and images")
    if not isinstance(values, Mapping):
        raise odd
    messages = values.get("messages")
    images = values.get("images")
    if not isinstance(messages, Sequence) or not messages or not isinstance(images, Sequence):
        raise odd
    texts: list[tuple[str, str]] = []
    for each in messages:
        role = each.get("role") if isinstance(each, Mapping) else None
        text = each.get("content") if isinstance(each, Mapping) else None
        if not isinstance(role, str) or not isinstance(text, str):
            raise odd
        texts.append((role, text))
    paths: list[Any] = []
    for each in images:
        paths += each if isinstance(each, list) else [each]
    if not all(isinstance(path, str) for path in paths):
        raise odd
    return texts, paths


def _exchanges(messages: list[tuple[str, str]], images: list[str]) -> Iterator[Exchange]:
    """Yield the turns after the first message, each with the images of the message after it."""
    places = sum(text.count(_PLACE) for _, text in messages)
    if places != len(images):
        detail = f"{places} placeholders, {len(images)} images"
        raise DialogueError(Rejection.IMAGE_COUNT, detail)
    roles = [role for role, _ in messages]
    if roles != ["user", "assistant"] * (len(roles) // 2):
        raise DialogueError(Rejection.NO_DIALOGUE, "user and assistant do not take turns")
    if _PLACE in messages[0][1]:
        raise DialogueError(Rejection.NO_DIALOGUE, "the first message shows an image")
    left = iter(images)
    shown = [text for _, text in messages[2::2]]
    for (_, text), observation in zip(messages[1::2], [*shown, ""], strict=True):
        tag = _LAST_TAG.search(text)
        if tag is None or _PLACE in text:
            raise DialogueError(Rejection.FAULTY, "a turn does not end with an action")
        paths = tuple(next(left) for _ in range(observation.count(_PLACE)))
        yield Exchange(text.strip(), tag[1], paths)


def _question(prompt: str) -> str:
    """Return the question at the end of the release's prompt, or a prompt that is just that."""
    _, marker, question = prompt.partition(_MARKER)
    question = question.strip().removesuffix("**") if marker else prompt
    if not question.strip() or "<search>" in question:
        raise DialogueError(Rejection.NO_QUESTION, f"there is no {_MARKER!r}")
    return question.strip()


def _sample(
    question: str, exchanges: Sequence[Exchange], name: str, row: int, native_id: Any
) -> Sample:
    """Return the question of a dialogue, with what its teacher found as reference."""
    selected: dict[str, set[int]] = defaultdict(set)
    for exchange in exchanges:
        if exchange.action == "select":
            for doc_id, page in exchange.pages:
                selected[doc_id].add(page)
    tag = _LAST_TAG.search(exchanges[-1].text)
    answer = tag[2].strip() if tag else ""
    if not selected or not answer:
        detail = "it answers nothing" if selected else "it selects no page"
        raise DialogueError(Rejection.UNFINISHED, detail)
    doc_id = next(iter(selected))
    extra = {"gold": answer, "num_pages": None, "native_id": native_id, "row": row}
    if len(selected) > 1:
        ids = [f"{doc}#{page}" for doc, pages in sorted(selected.items()) for page in sorted(pages)]
        extra["page_ids"] = ids
    return Sample(
        question_id=name,
        dataset="unidoc_dialogues",
        split=Split.TRAIN,
        doc_id=doc_id,
        question=question,
        answers=(answer,),
        evidence_pages=tuple(sorted(selected[doc_id])),
        extra={**extra, "retrieval_scope": "corpus"},
    )
