"""The path of a question's evidence in a trajectory: looked for, found, shown, read, kept, answered right.

Pure functions of the record of a trajectory. A wrong trajectory counts as lost at the first stage that it did
not reach. One that got no further than `FOUND` had its page in a list of hits and did not open it; one that
got as far as `KEPT` had the page in its context and answered wrong all the same. A trajectory whose answer
nobody judged is lost nowhere: it is counted by itself.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.base.text import composed
from docagent_rl.envs.outcome import OutcomeState
from docagent_rl.retrieval.tokens import Tokenizer
from docagent_rl.samples.sample import parse_page_id

COVERED = 0.5
"""Share of an evidence box that a crop has to hold."""
_WHOLE = (0, 0, 1, 1)

Fractions = tuple[float, float, float, float]
"""`(x1, y1, x2, y2)` of a page's sides, 0 to 1."""


class Stage(StrEnum):
    """A stage of the evidence in a trajectory, in order."""

    ALL = "all"
    """Its question's evidence is known."""
    SOUGHT = "sought"
    """The agent searched, or opened a page."""
    REACH = "reach"
    """The question itself, as a query, finds every gold page among the hits that searches ask for."""
    FOUND = "found"
    """Queries of the agent returned every gold page, or it opened them itself."""
    SHOWN = "shown"
    """They entered the context, as an image of their own or as text; a thumbnail is neither."""
    LOOKED = "looked"
    """They could be read, in one of the ways of `Branch`."""
    ANSWERED = "answered"
    """There is an answer."""
    KEPT = "kept"
    """They were still in the context of the turn that answered."""
    RIGHT = "right"
    """The answer was right, whatever was seen."""


STAGES = tuple(Stage)


class Branch(StrEnum):
    """A way in which the gold pages were read; of several the first."""

    ZOOMED = "zoomed"
    """A crop covered the evidence and showed it larger than the whole page did."""
    WHOLE = "read_whole"
    """The page was shown whole, at the size at which the recipe shows pages, and not only to choose from."""
    TEXT = "as_text"
    """Its text was shown, or somebody else read it."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of one trajectory; `None` is: not known.

    Args:
        stage: the last that its evidence came to; `None` where the question's evidence is unknown, or there
            is none, or the trajectory was not played. `Stage.RIGHT` is of right answers with the evidence
            kept.
        reach: see `Stage`; known only where the agent asked the question itself, or an index was asked.
        outcome: whether the answer was right, whatever was seen, or nobody judged it.
        branch: how the gold pages were read, from `Stage.LOOKED` on.
    """

    stage: Stage | None
    reach: bool | None
    outcome: OutcomeState | None
    branch: Branch | None = None

    @property
    def right(self) -> bool:
        """Return whether the answer is known to be right."""
        return self.outcome is OutcomeState.RIGHT

    @property
    def unjudged(self) -> bool:
        """Return whether there is an answer that nobody judged."""
        return self.outcome is OutcomeState.UNJUDGED

    @property
    def guessed(self) -> bool:
        """Return whether the answer is right, though not every gold page was shown."""
        return self.right and self.reached(Stage.SHOWN) is False

    def reached(self, stage: Stage) -> bool | None:
        """Return whether it came to a stage; later ones imply earlier ones, but for a right answer.

        An unjudged answer did not come to be right, and is not lost there either.
        """
        if self.stage is None:
            return None
        if stage is Stage.RIGHT:
            return None if self.outcome is None else self.right
        place, wanted = STAGES.index(self.stage), STAGES.index(stage)
        if stage is Stage.REACH and self.stage is Stage.SOUGHT and self.reach is None:
            return None
        return place >= wanted


def evidence_of(trajectory: Mapping[str, Any]) -> Evidence:
    """Find how far a trajectory came, from its fields as they are written (turns are mappings)."""
    try:
        return _evidence_of(trajectory)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return Evidence(None, None, None)  # an environment that records something else


def _evidence_of(trajectory: Mapping[str, Any]) -> Evidence:
    outcome = outcome_of(trajectory)
    gold = gold_pages(mapping(trajectory.get("sample")))
    if not gold or trajectory.get("status") == "masked":
        return Evidence(None, None, outcome)
    turns = [mapping(turn) for turn in trajectory.get("turns") or ()]
    asked = _asked_itself(trajectory, turns, gold)
    looks = list(_looks(trajectory, turns))
    searched = any(turn.get("searches") for turn in turns)
    found = {page for turn in turns for page in found_pages(turn)} | {look.page for look in looks}
    read = _read(looks, gold_boxes(mapping(trajectory.get("sample"))))
    looked = gold <= {look.page for look, _ in read}
    passed = (
        (Stage.SOUGHT, searched or bool(found)),
        (Stage.REACH, bool(asked)),
        (Stage.FOUND, gold <= found),
        (Stage.SHOWN, gold <= {look.page for look in looks}),
        (Stage.LOOKED, looked),
        (Stage.ANSWERED, looked and answer_of(trajectory) is not None),
        (Stage.KEPT, gold <= _kept(trajectory, turns, [look for look, _ in read])),
    )
    stage = next((stage for stage, holds in reversed(passed) if holds), Stage.ALL)
    if stage is Stage.KEPT and outcome is OutcomeState.RIGHT:
        stage = Stage.RIGHT
    ways = {branch for look, branch in read if look.page in gold}
    return Evidence(stage, asked, outcome, next(filter(ways.__contains__, Branch)) if looked else None)


def shares(found: Iterable[Evidence]) -> dict[str, float]:
    """Return the shares of trajectories by stage, by the way the evidence was read, `guessed` and `unjudged`.

    Trajectories of unknown evidence do not count; `reach`, and `right` with `unjudged`, are there where all
    know them. All shares are of the same trajectories: what is neither `right` nor `unjudged` is wrong.
    """
    known = [each for each in found if each.stage is not None]
    if not known:
        return {}
    numbers = {stage.value: [each.reached(stage) for each in known] for stage in STAGES[1:]}
    numbers |= {branch.value: [each.branch is branch for each in known] for branch in Branch}
    numbers["guessed"] = [each.guessed for each in known]
    numbers["unjudged"] = [None if each.outcome is None else each.unjudged for each in known]
    return {
        name: sum(map(bool, values)) / len(values) for name, values in numbers.items() if None not in values
    }


def outcome_of(trajectory: Mapping[str, Any]) -> OutcomeState | None:
    """Return whether the environment found the answer right; `None` where its system does not say."""
    state = mapping(trajectory.get("outcome")).get("state")
    return None if state is None else OutcomeState(state)


def gold_pages(sample: Mapping[str, Any]) -> frozenset[str]:
    """Return the pages of the evidence as `doc#page`; see `Sample.gold_pages`."""
    pages = mapping(sample.get("extra")).get("page_ids")
    if isinstance(pages, list | tuple):
        return frozenset(composed(str(page)) for page in pages)
    numbers = sample.get("evidence_pages") or ()
    return frozenset(f"{sample.get('doc_id')}#{page}" for page in numbers)


def gold_boxes(sample: Mapping[str, Any]) -> dict[str, list[Fractions]]:
    """Return boxes of the evidence by `doc#page`, in all documents; see `samples.sample.gold_boxes`.

    What is no page or no box is left out: trajectories are read as they were written.
    """
    own, others = sample.get("evidence_boxes"), mapping(sample.get("extra")).get("other_boxes")
    named = {f"{sample.get('doc_id')}#{page}": boxes for page, boxes in mapping(own).items()}
    return {
        composed(page): [box for each in boxes if (box := fractions_of(each)) is not None]
        for page, boxes in {**mapping(others), **named}.items()
        if _is_page(page) and isinstance(boxes, list | tuple)
    }


def found_pages(turn: Mapping[str, Any]) -> Iterator[str]:
    """Yield the pages that the searches of a turn returned, as `doc#page`."""
    for search in turn.get("searches") or ():
        yield from (str(page) for page, *_ in search["hits"])
    found = _effect(turn).get("hits")
    pages = [mapping(hit).get("page") for hit in found] if isinstance(found, list) else ()
    yield from (page for page in pages if isinstance(page, str) and _is_page(page))


@dataclass(frozen=True, slots=True)
class Look:
    """A page, `doc#page`, in the context: brought by a turn, from 0, or by the prompt, -1.

    A whole page has no `regions`, text no `pixels`; a `candidate` is one of several to choose from.
    """

    page: str
    turn: int
    regions: tuple[Fractions, ...] = ()
    pixels: int | None = None
    candidate: bool = False


def _looks(trajectory: Mapping[str, Any], turns: Sequence[Mapping[str, Any]]) -> Iterator[Look]:
    for image in images_of(trajectory.get("prompt")):
        if "tiles" not in image and image.get("page"):
            yield Look(str(image["page"]), -1, pixels=_pixels(image))
    for number, turn in enumerate(turns):
        if turn.get("dropped"):
            continue
        yield from turn_looks(turn, number)


def turn_looks(turn: Mapping[str, Any], number: int) -> Iterator[Look]:
    """Yield the pages that a turn brought before the agent's eyes, as its environment recorded it.

    The effect of an action describes one view (`page`, `size`, `region`), several of them (`pages`), or
    `entries` of pages that somebody else read. Where it describes none, pages that the observation shows
    count as shown whole.
    """
    effect = _effect(turn)
    several = effect.get("pages")
    views = [mapping(view) for view in (effect, *(several if isinstance(several, list | tuple) else ()))]
    described = [view for view in views if view.get("page")]
    read = [page for entry in effect.get("entries") or () for page in mapping(entry).get("pages") or ()]
    if not described and not read:
        described = [image for image in images_of(turn.get("observation")) if image.get("page")]
    yield from (Look(str(page), number) for page in read)
    for view in described:
        regions = view.get("regions") or [view.get("region")]
        boxes = tuple(box for each in regions if (box := fractions_of(each)) not in (None, _WHOLE))
        yield Look(str(view["page"]), number, boxes, _pixels(view), effect.get("kind") == "candidates")


def images_of(messages: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the images of messages in order, as they were described."""
    for message in messages or ():
        yield from (part["image"] for part in message["parts"] if "image" in part)


def covered(box: Sequence[float], regions: Iterable[Sequence[float]]) -> float:
    """Return the largest share of a box that lies in one of the regions."""
    area = max(box[2] - box[0], 0) * max(box[3] - box[1], 0)
    if not area:
        return 0.0
    shares = [
        max(min(box[2], x2) - max(box[0], x1), 0) * max(min(box[3], y2) - max(box[1], y1), 0) / area
        for x1, y1, x2, y2 in regions
    ]
    return max(shares, default=0.0)


def _read(looks: Sequence[Look], boxes: Mapping[str, Sequence[Fractions]]) -> list[tuple[Look, Branch]]:
    """Return the looks in which the evidence of their page could be read, and how."""
    whole: dict[str, int] = {}
    for look in looks:
        if not look.regions and look.pixels is not None:
            whole[look.page] = max(look.pixels, whole.get(look.page, 0))
    found = []
    for look in looks:
        missed = look.regions and any(covered(b, look.regions) < COVERED for b in boxes.get(look.page, ()))
        if look.candidate or missed:
            continue
        area = sum((x2 - x1) * (y2 - y1) for x1, y1, x2, y2 in look.regions)
        if look.pixels is None:
            found.append((look, Branch.TEXT))
        elif look.regions and look.pixels > area * whole.get(look.page, 0):
            found.append((look, Branch.ZOOMED))
        else:
            found.append((look, Branch.WHOLE))
    return found


def _kept(
    trajectory: Mapping[str, Any], turns: Sequence[Mapping[str, Any]], looks: Sequence[Look]
) -> frozenset[str]:
    """Return the pages that were read and stood in the context of an answer; none without an answer."""
    outcome = mapping(turns[-1].get("info") if turns else None).get("outcome")
    if outcome is not None:  # somebody else answers from the pages that were read
        if not mapping(outcome).get("answer"):
            return frozenset()
        doc_id = mapping(trajectory.get("sample")).get("doc_id")
        read = {f"{doc_id}#{page}" for page in mapping(outcome).get("pages") or ()}
        return frozenset(look.page for look in looks if look.page in read)
    if answer_of(trajectory) is None:
        return frozenset()
    # what a turn brings stands before the next one, and another row begins with what the turn before brought
    row = turns[-1].get("row", 0)
    first = next(number for number, turn in enumerate(turns) if turn.get("row", 0) == row)
    return frozenset(look.page for look in looks if look.turn >= first - 1)


def answer_of(trajectory: Mapping[str, Any]) -> str | None:
    """Return the last answer of a trajectory, in short where a system makes it short; `None` without one."""
    answer, short = answers_of(mapping(turn).get("info") for turn in trajectory.get("turns") or ())
    return answer if short is None else short


def answers_of(infos: Iterable[Any]) -> tuple[str | None, str | None]:
    """Return the last answer, and the short one that the system made of it, from the `info` of each turn."""
    for info in reversed([mapping(each) for each in infos]):
        outcome, action = mapping(info.get("outcome")), mapping(info.get("action"))
        if isinstance(said := outcome.get("answer"), str) and said.strip():
            short = outcome.get("extracted")
            return said, short if isinstance(short, str) else None
        if action.get("kind") == "answer" and info.get("executed"):
            said = action.get("text")
            return (said if isinstance(said, str) and said.strip() else None), None
    return None, None


def _asked_itself(
    trajectory: Mapping[str, Any], turns: Sequence[Mapping[str, Any]], gold: frozenset[str]
) -> bool | None:
    """Return whether a search with the question's own words found all gold pages; `None`: none had them."""
    words = Tokenizer()
    question = words(str(mapping(trajectory.get("sample")).get("question")))
    searches = [mapping(search) for turn in turns for search in turn.get("searches") or ()]
    own = [each for each in searches if words(str(each.get("query"))) == question]
    if not own:
        return None
    return any(gold <= set(found_pages({"searches": [each]})) for each in own)


def _is_page(text: str) -> bool:
    try:
        parse_page_id(text)
    except UserError:
        return False
    return True


def fractions_of(value: Any) -> Fractions | None:
    """Return a recorded box; `None` for anything else."""
    numbers = value if isinstance(value, list | tuple) else ()
    if len(numbers) != 4 or not all(isinstance(each, int | float) for each in numbers):
        return None
    return numbers[0], numbers[1], numbers[2], numbers[3]


def _pixels(image: Mapping[str, Any]) -> int | None:
    size = image.get("size")
    if image.get("form") == "text" or not isinstance(size, list | tuple) or len(size) != 2:
        return None
    return int(size[0]) * int(size[1])


def _effect(turn: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(mapping(turn.get("info")).get("effect"))


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a recorded mapping; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}
