"""What became of a question's evidence in a session: in reach, found, shown, looked at, kept, answered right.

Pure: from what is recorded of a session. The stages tell retrieval, navigation, perception and reasoning
apart: a session that is lost after `FOUND` saw its page in a list of hits and did not open it, one that is
lost after `KEPT` had it before its eyes and answered wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from docagent_rl.errors import UserError
from docagent_rl.records.record import parse_page_id

if TYPE_CHECKING:
    from docagent_rl.rollout.trajectory import Trajectory

RIGHT = 0.5
"""An answer counts as right from here on, where scores are graded."""
COVERED = 0.5
"""Share of an evidence box that a crop has to hold."""
LARGE_PX = 500_000
"""Pixels from which on a whole page counts as looked at, where the agent could have magnified it."""
_ZOOMING = frozenset({"vrag_rl", "unidoc_rl"})
"""Systems that can magnify; in others a page of its own is as close as it gets."""
_OUTCOMES = ("reward/outcome", "reward/correctness", "reward/answer")
_OF_SESSION = ("record", "prompt", "metrics", "system", "status")
_OF_TURN = ("info", "dropped", "row", "searches")
_WORD = re.compile(r"\w+")

Fractions = tuple[float, float, float, float]
"""`(x1, y1, x2, y2)` of a page's sides, 0 to 1."""


class Stage(StrEnum):
    """How far a session came, in order."""

    ALL = "all"
    """Its question's evidence is known."""
    REACH = "reach"
    """The question itself, as a query, finds every gold page among the hits that searches ask for."""
    FOUND = "found"
    """Queries of the agent returned every gold page, or it opened them itself."""
    SHOWN = "shown"
    """They entered the context, as an image of their own or as text; a thumbnail is neither."""
    LOOKED = "looked"
    """A crop covered the evidence, or the page was shown large."""
    KEPT = "kept"
    """They were still in the context of the turn that answered."""
    RIGHT = "right"
    """The answer was right."""


STAGES = tuple(Stage)


@dataclass(frozen=True, slots=True)
class Evidence:
    """One session. `None` is: not known.

    Args:
        stage: the last that was reached; `None` where the question's evidence is unknown, or there is none,
            or the session was not played.
        reach: see `Stage`; known only where the agent asked the question itself, or an index was asked.
        right: the answer was right, whatever was seen.
    """

    stage: Stage | None
    reach: bool | None
    right: bool | None

    @property
    def guessed(self) -> bool:
        """Right, though not every gold page was shown."""
        return bool(self.right) and self.reached(Stage.SHOWN) is False

    def reached(self, stage: Stage) -> bool | None:
        """Whether it came to a stage; later ones imply earlier ones."""
        if self.stage is None:
            return None
        place, wanted = STAGES.index(self.stage), STAGES.index(stage)
        if stage is Stage.REACH and place < wanted and self.reach is None:
            return None
        return place >= wanted


def evidence_of(session: Mapping[str, Any], reach: bool | None = None) -> Evidence:
    """How far a session came.

    Args:
        session: fields of a `Trajectory`, as they are written or as `vars` gives them; a turn is a mapping.
        reach: whether the question itself finds the gold pages, where an index was asked.
    """
    try:
        return _evidence_of(session, reach)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return Evidence(None, reach, None)  # an environment that records something else


def _evidence_of(session: Mapping[str, Any], reach: bool | None) -> Evidence:
    right = is_right(session)
    gold = gold_pages(_mapping(session.get("record")))
    if not gold or session.get("status") == "masked":
        return Evidence(None, reach, right)
    turns = [_mapping(turn) for turn in session.get("turns") or ()]
    asked = _asked_itself(session, turns, gold) if reach is None else reach
    looks = list(_looks(session, turns))
    found = {page for turn in turns for page in found_pages(turn)} | {look.page for look in looks}
    boxes = gold_boxes(_mapping(session.get("record")))
    close = [look for look in looks if _close(look, boxes, str(session.get("system", "")))]
    stage = Stage.ALL
    passed = (
        (Stage.REACH, bool(asked)),
        (Stage.FOUND, gold <= found),
        (Stage.SHOWN, gold <= {look.page for look in looks}),
        (Stage.LOOKED, gold <= {look.page for look in close}),
        (Stage.KEPT, gold <= _kept(session, turns, close)),
    )
    for candidate, holds in passed:
        stage = candidate if holds else stage
    if stage is Stage.KEPT and right:
        stage = Stage.RIGHT
    return Evidence(stage, asked, right)


def evidence_of_trajectory(trajectory: Trajectory) -> Evidence:
    """How far a session came that has just ended."""
    turns = [{name: getattr(turn, name) for name in _OF_TURN} for turn in trajectory.turns]
    return evidence_of({**{name: getattr(trajectory, name) for name in _OF_SESSION}, "turns": turns})


def shares(found: Iterable[Evidence]) -> dict[str, float]:
    """Of the sessions whose evidence is known, the share that came to each stage, and that of guesses.

    `reach` is left out unless it is known of all of them.
    """
    known = [each for each in found if each.stage is not None]
    if not known:
        return {}
    numbers = {stage.value: [each.reached(stage) for each in known] for stage in STAGES[1:]}
    numbers["guessed"] = [each.guessed for each in known]
    return {
        name: sum(map(bool, values)) / len(values) for name, values in numbers.items() if None not in values
    }


def is_right(session: Mapping[str, Any]) -> bool | None:
    """Whether the environment found the answer right; `None` where it did not judge."""
    metrics = _mapping(session.get("metrics"))
    score = next((metrics[name] for name in _OUTCOMES if name in metrics), None)
    return None if not isinstance(score, int | float) else score >= RIGHT


def gold_pages(record: Mapping[str, Any]) -> frozenset[str]:
    """The pages of the evidence as `doc#page`; see `Record.gold_pages`."""
    pages = _mapping(record.get("extra")).get("page_ids")
    if isinstance(pages, list | tuple):
        return frozenset(str(page) for page in pages)
    numbers = record.get("evidence_pages") or ()
    return frozenset(f"{record.get('doc_id')}#{page}" for page in numbers)


def gold_boxes(record: Mapping[str, Any]) -> dict[str, list[Fractions]]:
    """Boxes of the evidence by `doc#page`, in all documents of a question; see `records.gold_boxes`.

    What is no page or no box is left out: sessions are read as they were written.
    """
    own, others = record.get("evidence_boxes"), _mapping(record.get("extra")).get("other_boxes")
    named = {f"{record.get('doc_id')}#{page}": boxes for page, boxes in _mapping(own).items()}
    return {
        page: [box for each in boxes if (box := _box(each)) is not None]
        for page, boxes in {**_mapping(others), **named}.items()
        if _is_page(page) and isinstance(boxes, list | tuple)
    }


def found_pages(turn: Mapping[str, Any]) -> Iterator[str]:
    """Pages that the searches of a turn returned, as `doc#page`."""
    for search in turn.get("searches") or ():
        for hit in _mapping(search).get("hits") or ():
            if isinstance(hit, list | tuple) and hit:
                yield str(hit[0])
    yield from _named(_effect(turn).get("hits"))


@dataclass(frozen=True, slots=True)
class Look:
    """A page in the context.

    Args:
        page: as `doc#page`.
        turn: that brought it, from 0; -1: the prompt.
        regions: of a crop; empty for a whole page.
        pixels: of the image; `None` for text.
        candidate: one of several that the agent was to choose from.
    """

    page: str
    turn: int
    regions: tuple[Fractions, ...] = ()
    pixels: int | None = None
    candidate: bool = False


def _looks(session: Mapping[str, Any], turns: Sequence[Mapping[str, Any]]) -> Iterator[Look]:
    for image in images_of(session.get("prompt")):
        if "tiles" not in image and image.get("page"):
            yield Look(str(image["page"]), -1, pixels=_pixels(image))
    for number, turn in enumerate(turns):
        if turn.get("dropped"):
            continue
        yield from turn_looks(turn, number)


def turn_looks(turn: Mapping[str, Any], number: int) -> Iterator[Look]:
    """What a turn brought before the agent's eyes, as its environment recorded it."""
    effect = _effect(turn)
    candidate = effect.get("kind") == "candidates"
    match effect.get("kind"):
        case "crop":
            regions = effect.get("regions") or [effect.get("region")]
            boxes = tuple(box for each in regions if (box := _box(each)) is not None)
            yield Look(str(effect.get("page")), number, boxes, _pixels(effect))
        case "selection":
            yield Look(str(effect.get("page")), number, pixels=_pixels(effect))
        case "read":
            for entry in effect.get("entries") or ():
                for page in _mapping(entry).get("pages") or ():
                    yield Look(str(page), number)
        case _:
            for page in effect.get("pages") or ():
                known = _mapping(page)
                if known.get("page"):
                    yield Look(str(known["page"]), number, (), _pixels(known), candidate)


def images_of(messages: Any) -> Iterator[Mapping[str, Any]]:
    """The images of messages in order, as they were described."""
    for message in messages or ():
        for part in _mapping(message).get("parts") or ():
            image = _mapping(part).get("image")
            if isinstance(image, Mapping):
                yield image


def covered(box: Sequence[float], regions: Iterable[Sequence[float]]) -> float:
    """The largest share of a box that lies in one of the regions."""
    area = max(box[2] - box[0], 0) * max(box[3] - box[1], 0)
    if not area:
        return 0.0
    shares = [
        max(min(box[2], x2) - max(box[0], x1), 0) * max(min(box[3], y2) - max(box[1], y1), 0) / area
        for x1, y1, x2, y2 in regions
    ]
    return max(shares, default=0.0)


def _close(look: Look, boxes: Mapping[str, Sequence[Fractions]], system: str) -> bool:
    """Whether the evidence of the page could be read: its text, a crop that covers it, a page shown large."""
    if look.regions:
        return all(covered(box, look.regions) >= COVERED for box in boxes.get(look.page, ()))
    if look.pixels is None:
        return True
    if system in _ZOOMING:
        return not look.candidate and look.pixels >= LARGE_PX
    return True


def _kept(
    session: Mapping[str, Any], turns: Sequence[Mapping[str, Any]], close: Sequence[Look]
) -> frozenset[str]:
    """Pages that were looked at and stood in the context of an answer; none without an answer."""
    outcome = _mapping(turns[-1].get("info") if turns else None).get("outcome")
    if outcome is not None:  # somebody else answers from the pages that were read
        if not _mapping(outcome).get("answer"):
            return frozenset()
        doc_id = _mapping(session.get("record")).get("doc_id")
        read = {f"{doc_id}#{page}" for page in _mapping(outcome).get("pages") or ()}
        return frozenset(look.page for look in close if look.page in read)
    if answer_of(session) is None:
        return frozenset()
    last = len(turns) - 1
    # what a turn brings stands before the next one; another row begins with a context of its own
    row = turns[last].get("row", 0)
    first = next(number for number, turn in enumerate(turns) if turn.get("row", 0) == row)
    return frozenset(look.page for look in close if look.turn >= first or first == 0)


def answer_of(session: Mapping[str, Any]) -> str | None:
    """The last answer that the session gave; `None` without one."""
    for turn in reversed(session.get("turns") or ()):
        info = _mapping(_mapping(turn).get("info"))
        said = _mapping(info.get("outcome")).get("answer")
        if isinstance(said, str) and said.strip():
            short = _mapping(info.get("outcome")).get("extracted")
            return short if isinstance(short, str) else said
        action = _mapping(info.get("action"))
        if action.get("kind") == "answer" and info.get("executed"):
            said = action.get("text")
            return said if isinstance(said, str) and said.strip() else None
    return None


def _asked_itself(
    session: Mapping[str, Any], turns: Sequence[Mapping[str, Any]], gold: frozenset[str]
) -> bool | None:
    """What a search with the words of the question itself found; `None`: none had them."""
    question = _words(_mapping(session.get("record")).get("question"))
    searches = [_mapping(search) for turn in turns for search in turn.get("searches") or ()]
    own = [each for each in searches if _words(each.get("query")) == question]
    if not own:
        return None
    return any(gold <= set(found_pages({"searches": [each]})) for each in own)


def _words(text: Any) -> tuple[str, ...]:
    return tuple(_WORD.findall(str(text).casefold()))


def _named(found: Any) -> Iterator[str]:
    for item in found if isinstance(found, list) else ():
        page = _mapping(item).get("page")
        if isinstance(page, str) and _is_page(page):
            yield page


def _is_page(text: str) -> bool:
    try:
        parse_page_id(text)
    except UserError:
        return False
    return True


def _box(value: Any) -> Fractions | None:
    if not isinstance(value, list | tuple) or len(value) != 4:
        return None
    if not all(isinstance(each, int | float) for each in value):
        return None
    return value[0], value[1], value[2], value[3]


def _pixels(image: Mapping[str, Any]) -> int | None:
    if image.get("form") == "text":
        return None
    size = image.get("size")
    if not isinstance(size, list | tuple) or len(size) != 2:
        return None
    return int(size[0]) * int(size[1])


def _effect(turn: Mapping[str, Any]) -> Mapping[str, Any]:
    return _mapping(_mapping(turn.get("info")).get("effect"))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
