"""The evidence funnel of a trajectory: sought, found, shown, read, kept in context, answered right.

These are pure functions of the record of a trajectory. A wrong trajectory counts as lost at the
first stage that it did not reach. If its last stage is `FOUND`, the page was in a list of hits but
was not opened; if it is `KEPT`, the page was in the context and the answer was wrong nevertheless.
A trajectory with an unjudged answer is not lost at any stage; it is counted separately.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from docagent_rl.envs.outcome import OutcomeState
from docagent_rl.envs.recorded import listing, mapping
from docagent_rl.envs.turn_record import TurnRecord
from docagent_rl.retrieval.tokens import Tokenizer
from docagent_rl.rollout.seen_pages import (
    Fractions,
    PlayedTurn,
    SeenPage,
    answer_in,
    gold_boxes,
    gold_pages,
    pages_seen_in_prompt,
    records_of,
)

COVERED = 0.5
"""The share of an evidence box that a crop must cover."""


class Stage(StrEnum):
    """A stage of the evidence funnel; members are in order."""

    ALL = "all"
    """The question's evidence is known."""
    SOUGHT = "sought"
    """The agent searched, or opened a page."""
    REACH = "reach"
    """With the question itself as query, the requested hits contain every gold page."""
    FOUND = "found"
    """The agent's searches returned every gold page, or the agent opened them directly."""
    SHOWN = "shown"
    """All gold pages entered the context as an image or as text; thumbnails do not count."""
    LOOKED = "looked"
    """All gold pages could be read, in one of the ways of `Branch`."""
    ANSWERED = "answered"
    """There is an answer."""
    KEPT = "kept"
    """All gold pages were still in the context of the turn that answered."""
    RIGHT = "right"
    """The answer was right, whatever was shown."""


STAGES = tuple(Stage)


class Branch(StrEnum):
    """The way in which the gold pages were read; the first member that applies."""

    ZOOMED = "zoomed"
    """A crop covered the evidence and showed it larger than the whole page did."""
    WHOLE = "read_whole"
    """The whole page was shown at the recipe's page size, and not just as a candidate."""
    TEXT = "as_text"
    """The text of the page was shown, or another model read the page."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The progress of one trajectory in the evidence funnel; `None` means unknown.

    Args:
        stage: the last stage that was reached; `None` if the question's evidence is unknown or
            empty, or if the trajectory was masked. `Stage.RIGHT` requires a right answer with the
            evidence still in the context.
        reach: see `Stage`; known only if the agent searched for the question itself, or if an index
            was searched for it.
        outcome: whether the answer was right, wrong or unjudged, whatever was shown.
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
        """Return whether there is an answer that was not judged."""
        return self.outcome is OutcomeState.UNJUDGED

    @property
    def guessed(self) -> bool:
        """Return whether the answer is right although not every gold page was shown."""
        return self.right and self.reached(Stage.SHOWN) is False

    def reached(self, stage: Stage) -> bool | None:
        """Return whether a stage was reached; `None` if that is unknown.

        A later stage implies the earlier ones, except for `Stage.RIGHT`. An unjudged answer does
        not reach `Stage.RIGHT`, but does not count as lost there either.
        """
        if self.stage is None:
            return None
        if stage is Stage.RIGHT:
            return None if self.outcome is None else self.right
        if stage is Stage.REACH and self.stage is Stage.SOUGHT and self.reach is None:
            return None
        return STAGES.index(self.stage) >= STAGES.index(stage)


def evidence_of(
    trajectory: Mapping[str, Any], records: Sequence[TurnRecord] | None = None
) -> Evidence:
    """Determine how far a trajectory got, from its serialised fields (turns are mappings).

    `records` are the records of its turns, if they have been parsed already.
    """
    try:
        return _evidence_of(trajectory, records)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return Evidence(None, None, None)  # the environment records another format


def _evidence_of(trajectory: Mapping[str, Any], records: Sequence[TurnRecord] | None) -> Evidence:
    outcome = outcome_of(trajectory)
    sample = mapping(trajectory.get("sample"))
    gold = gold_pages(sample)
    if not gold or trajectory.get("status") == "masked":
        return Evidence(None, None, outcome)
    recorded = listing(trajectory.get("turns"))
    records = records_of(trajectory) if records is None else records
    turns = [PlayedTurn.of(turn, record) for turn, record in zip(recorded, records, strict=True)]
    seen = list(pages_seen_in_prompt(trajectory.get("prompt")))
    for number, turn in enumerate(turns):
        if not turn.dropped:
            seen += turn.seen_pages(number)
    asked = _asked_itself(str(sample.get("question")), turns, gold)
    sought = any(turn.searches for turn in turns)
    found = {page for turn in turns for page in turn.found} | {each.page for each in seen}
    readings = _readings(seen, gold_boxes(sample))
    looked = gold <= {reading.seen.page for reading in readings}
    answered = answer_in(records) is not None
    passed = (
        (Stage.SOUGHT, sought or bool(found)),
        (Stage.REACH, bool(asked)),
        (Stage.FOUND, gold <= found),
        (Stage.SHOWN, gold <= {each.page for each in seen}),
        (Stage.LOOKED, looked),
        (Stage.ANSWERED, looked and answered),
        (Stage.KEPT, answered and gold <= _kept(str(sample.get("doc_id")), turns, readings)),
    )
    stage = next((stage for stage, holds in reversed(passed) if holds), Stage.ALL)
    if stage is Stage.KEPT and outcome is OutcomeState.RIGHT:
        stage = Stage.RIGHT
    return Evidence(stage, asked, outcome, _first_branch(readings, gold) if looked else None)


def _asked_itself(question: str, turns: Sequence[PlayedTurn], gold: frozenset[str]) -> bool | None:
    """Return whether a search with the question's own words found all gold pages.

    The value is `None` if there was no such search.
    """
    words = Tokenizer()
    asked = words(question)
    own = [search for turn in turns for search in turn.searches if words(search.query) == asked]
    if not own:
        return None
    return any(gold <= set(search.pages) for search in own)


class Reading(NamedTuple):
    """A page whose evidence could be read where it was seen, and how."""

    seen: SeenPage
    branch: Branch


def _readings(seen: Sequence[SeenPage], boxes: Mapping[str, Sequence[Fractions]]) -> list[Reading]:
    """Return the seen pages on which the evidence could be read.

    `boxes` are the evidence boxes of each page.
    """
    # a crop is compared with the largest image of its whole page
    whole_pixels: dict[str, int] = {}
    for each in seen:
        if not each.regions and each.pixels is not None:
            whole_pixels[each.page] = max(each.pixels, whole_pixels.get(each.page, 0))
    readings = []
    for each in seen:
        branch = _branch(each, boxes.get(each.page, ()), whole_pixels.get(each.page, 0))
        if branch is not None:
            readings.append(Reading(each, branch))
    return readings


def _branch(seen: SeenPage, boxes: Sequence[Fractions], whole_pixels: int) -> Branch | None:
    """Return how the evidence on a page could be read when it was seen; `None` if it could not.

    `boxes` are the evidence boxes, if known; `whole_pixels` is the number of pixels of the page
    when it was shown as a whole.
    """
    if seen.candidate:
        return None
    # a crop must cover an evidence box; without boxes, any part of the page counts
    if seen.regions and any(covered(box, seen.regions) < COVERED for box in boxes):
        return None
    if seen.pixels is None:
        return Branch.TEXT
    if not seen.regions:
        return Branch.WHOLE
    # it is no zoom if the part has no more pixels than in the image of the whole page
    area = sum((x2 - x1) * (y2 - y1) for x1, y1, x2, y2 in seen.regions)
    return Branch.ZOOMED if seen.pixels > area * whole_pixels else Branch.WHOLE


def _first_branch(readings: Sequence[Reading], gold: frozenset[str]) -> Branch:
    """Return the first member of `Branch` in which a gold page was read."""
    branches = {reading.branch for reading in readings if reading.seen.page in gold}
    return next(branch for branch in Branch if branch in branches)


def _kept(doc_id: str, turns: Sequence[PlayedTurn], readings: Sequence[Reading]) -> frozenset[str]:
    """Return the pages that were read and available to the model that wrote the answer."""
    written = turns[-1].record.written
    if written is not None:
        # another model answered, from the pages recorded with its answer
        given = {f"{doc_id}#{number}" for number in written.pages}
        return frozenset(seen.page for seen, _ in readings if seen.page in given)
    begin = _begin_of_row(turns)
    return frozenset(seen.page for seen, _ in readings if seen.turn >= begin)


def _begin_of_row(turns: Sequence[PlayedTurn]) -> int:
    """Return the turn whose observation starts the context of the last turn; -1 is the prompt."""
    for number, turn in enumerate(turns):
        if turn.row == turns[-1].row:
            # the observation of a turn precedes the next turn, so it starts the next turn's row
            return number - 1
    raise ValueError("there is no turn")


def shares(found: Iterable[Evidence]) -> dict[str, float]:
    """Return the shares of trajectories by stage and branch, and those `guessed` and `unjudged`.

    Trajectories with unknown evidence do not count. `reach`, and `right` together with `unjudged`,
    are present only if they are known for all others. All shares have the same denominator: a
    trajectory that is neither `right` nor `unjudged` is wrong.
    """
    known = [each for each in found if each.stage is not None]
    if not known:
        return {}
    numbers: dict[str, list[bool | None]] = {}
    for stage in STAGES[1:]:
        numbers[stage.value] = [each.reached(stage) for each in known]
    for branch in Branch:
        numbers[branch.value] = [each.branch is branch for each in known]
    numbers["guessed"] = [each.guessed for each in known]
    numbers["unjudged"] = [None if each.outcome is None else each.unjudged for each in known]
    return {
        name: sum(map(bool, values)) / len(values)
        for name, values in numbers.items()
        if None not in values
    }


def outcome_of(trajectory: Mapping[str, Any]) -> OutcomeState | None:
    """Return the outcome that the environment recorded; `None` if its system records none."""
    state = mapping(trajectory.get("outcome")).get("state")
    return None if state is None else OutcomeState(state)


def covered(box: Sequence[float], regions: Iterable[Sequence[float]]) -> float:
    """Return the largest share of a box that a single region covers."""
    area = max(box[2] - box[0], 0) * max(box[3] - box[1], 0)
    if not area:
        return 0.0
    largest = 0.0
    for x1, y1, x2, y2 in regions:
        width = max(min(box[2], x2) - max(box[0], x1), 0)
        height = max(min(box[3], y2) - max(box[1], y1), 0)
        largest = max(largest, width * height / area)
    return largest
