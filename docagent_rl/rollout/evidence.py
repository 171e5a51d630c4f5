"""The path of a question's evidence in a trajectory: looked for, found, shown, read, kept, answered
right.

Pure functions of the record of a trajectory. A wrong trajectory counts as lost at the first stage
that it did not reach. One that got no further than `FOUND` had its page in a list of hits and did
not open it; one that got as far as `KEPT` had the page in its context and answered wrong all the
same. A trajectory whose answer nobody judged is lost nowhere: it is counted by itself.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from docagent_rl.envs.outcome import OutcomeState
from docagent_rl.envs.recorded import listing, mapping
from docagent_rl.envs.turn_record import TurnRecord
from docagent_rl.retrieval.tokens import Tokenizer
from docagent_rl.rollout.looks import (
    Fractions,
    Look,
    PlayedTurn,
    answer_in,
    gold_boxes,
    gold_pages,
    prompt_looks,
    records_of,
)

COVERED = 0.5
"""Share of an evidence box that a crop has to hold."""


class Stage(StrEnum):
    """A stage of the evidence in a trajectory, in order."""

    ALL = "all"
    """Its question's evidence is known."""
    SOUGHT = "sought"
    """The agent searched, or opened a page."""
    REACH = "reach"
    """The question itself, as a query, finds every gold page among the hits that searches ask
    for.
    """
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
    """The page was shown whole, at the size at which the recipe shows pages, and not only to choose
    from.
    """
    TEXT = "as_text"
    """Its text was shown, or somebody else read it."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of one trajectory; `None` is: not known.

    Args:
        stage: the last that its evidence came to; `None` where the question's evidence is unknown,
            or there is none, or the trajectory was not played. `Stage.RIGHT` is of right answers
            with the evidence kept.
        reach: see `Stage`; known only where the agent asked the question itself, or an index was
            asked.
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
        place = STAGES.index(self.stage)
        wanted = STAGES.index(stage)
        if stage is Stage.REACH and self.stage is Stage.SOUGHT and self.reach is None:
            return None
        return place >= wanted


def evidence_of(
    trajectory: Mapping[str, Any], records: Sequence[TurnRecord] | None = None
) -> Evidence:
    """Find how far a trajectory came, from its fields as they are written (turns are mappings).

    `records` are those of its turns, where they were read before.
    """
    try:
        return _evidence_of(trajectory, records)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return Evidence(None, None, None)  # an environment that records something else


def _evidence_of(trajectory: Mapping[str, Any], records: Sequence[TurnRecord] | None) -> Evidence:
    outcome = outcome_of(trajectory)
    sample = mapping(trajectory.get("sample"))
    gold = gold_pages(sample)
    if not gold or trajectory.get("status") == "masked":
        return Evidence(None, None, outcome)
    recorded = listing(trajectory.get("turns"))
    records = records_of(trajectory) if records is None else records
    turns = [PlayedTurn.of(turn, record) for turn, record in zip(recorded, records, strict=True)]
    looks = list(prompt_looks(trajectory.get("prompt")))
    for number, turn in enumerate(turns):
        if not turn.dropped:
            looks += turn.looks(number)
    asked = _asked_itself(str(sample.get("question")), turns, gold)
    sought = any(turn.searches for turn in turns)
    found = {page for turn in turns for page in turn.found} | {look.page for look in looks}
    readings = _readings(looks, gold_boxes(sample))
    looked = gold <= {reading.look.page for reading in readings}
    answered = answer_in(records) is not None
    passed = (
        (Stage.SOUGHT, sought or bool(found)),
        (Stage.REACH, bool(asked)),
        (Stage.FOUND, gold <= found),
        (Stage.SHOWN, gold <= {look.page for look in looks}),
        (Stage.LOOKED, looked),
        (Stage.ANSWERED, looked and answered),
        (Stage.KEPT, answered and gold <= _kept(str(sample.get("doc_id")), turns, readings)),
    )
    stage = next((stage for stage, holds in reversed(passed) if holds), Stage.ALL)
    if stage is Stage.KEPT and outcome is OutcomeState.RIGHT:
        stage = Stage.RIGHT
    return Evidence(stage, asked, outcome, _way(readings, gold) if looked else None)


def _asked_itself(question: str, turns: Sequence[PlayedTurn], gold: frozenset[str]) -> bool | None:
    """Return whether a search with the question's own words found all gold pages; `None`: none had
    them.
    """
    words = Tokenizer()
    asked = words(question)
    own = [search for turn in turns for search in turn.searches if words(search.query) == asked]
    if not own:
        return None
    return any(gold <= set(search.pages) for search in own)


class Reading(NamedTuple):
    """A look in which the evidence of its page could be read, and how."""

    look: Look
    branch: Branch


def _readings(looks: Sequence[Look], boxes: Mapping[str, Sequence[Fractions]]) -> list[Reading]:
    """Return the looks in which the evidence of their page could be read; `boxes` are those of each
    page.
    """
    # a crop is compared with the largest image of its whole page
    whole_pixels: dict[str, int] = {}
    for look in looks:
        if not look.regions and look.pixels is not None:
            whole_pixels[look.page] = max(look.pixels, whole_pixels.get(look.page, 0))
    readings = []
    for look in looks:
        branch = _branch(look, boxes.get(look.page, ()), whole_pixels.get(look.page, 0))
        if branch is not None:
            readings.append(Reading(look, branch))
    return readings


def _branch(look: Look, boxes: Sequence[Fractions], whole_pixels: int) -> Branch | None:
    """Return how the evidence of a page could be read in a look at it; `None`: it could not.

    `boxes` hold the evidence, where that is known; `whole_pixels` are those of the page when it was
    shown whole.
    """
    if look.candidate:
        return None
    # a crop beside the evidence shows nothing of it; without boxes any part will do
    if look.regions and any(covered(box, look.regions) < COVERED for box in boxes):
        return None
    if look.pixels is None:
        return Branch.TEXT
    if not look.regions:
        return Branch.WHOLE
    # as many pixels as the same part has in the image of the whole page are no zoom
    area = sum((x2 - x1) * (y2 - y1) for x1, y1, x2, y2 in look.regions)
    return Branch.ZOOMED if look.pixels > area * whole_pixels else Branch.WHOLE


def _way(readings: Sequence[Reading], gold: frozenset[str]) -> Branch:
    """Return the way in which gold pages were read, of several the first."""
    ways = {reading.branch for reading in readings if reading.look.page in gold}
    return next(branch for branch in Branch if branch in ways)


def _kept(doc_id: str, turns: Sequence[PlayedTurn], readings: Sequence[Reading]) -> frozenset[str]:
    """Return the pages that were read and that whoever answered had before it; there is an
    answer.
    """
    written = turns[-1].record.written
    if written is not None:
        # another model answered, and had the pages that it wrote from
        had = {f"{doc_id}#{number}" for number in written.pages}
        return frozenset(look.page for look, _ in readings if look.page in had)
    begin = _begin_of_row(turns)
    return frozenset(look.page for look, _ in readings if look.turn >= begin)


def _begin_of_row(turns: Sequence[PlayedTurn]) -> int:
    """Return the turn whose observation begins the context of the last turn, -1 for the prompt."""
    for number, turn in enumerate(turns):
        if turn.row == turns[-1].row:
            # a turn's observation stands before the next turn, and so begins that one's row
            return number - 1
    raise ValueError("there is no turn")


def shares(found: Iterable[Evidence]) -> dict[str, float]:
    """Return the shares of trajectories by stage, by the way the evidence was read, `guessed` and
    `unjudged`.

    Trajectories of unknown evidence do not count; `reach`, and `right` with `unjudged`, are there
    where all know them. All shares are of the same trajectories: what is neither `right` nor
    `unjudged` is wrong.
    """
    known = [each for each in found if each.stage is not None]
    if not known:
        return {}
    numbers = {stage.value: [each.reached(stage) for each in known] for stage in STAGES[1:]}
    numbers |= {branch.value: [each.branch is branch for each in known] for branch in Branch}
    numbers["guessed"] = [each.guessed for each in known]
    numbers["unjudged"] = [None if each.outcome is None else each.unjudged for each in known]
    return {
        name: sum(map(bool, values)) / len(values)
        for name, values in numbers.items()
        if None not in values
    }


def outcome_of(trajectory: Mapping[str, Any]) -> OutcomeState | None:
    """Return whether the environment found the answer right; `None` where its system does not
    say.
    """
    state = mapping(trajectory.get("outcome")).get("state")
    return None if state is None else OutcomeState(state)


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
