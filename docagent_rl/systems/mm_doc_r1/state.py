"""The state of an MM-Doc-R1 trajectory, its metrics, and the seeker's steps as text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from docagent_rl.actions.base import Search
from docagent_rl.base.text import encodable
from docagent_rl.envs.base import EndReason, EnvState, measured
from docagent_rl.envs.effects import NoHit
from docagent_rl.envs.token_budget import TokenCounter, cut_middle, cut_to_chars
from docagent_rl.rewards.retrieval import recall
from docagent_rl.rewards.text import NOT_ANSWERABLE
from docagent_rl.systems.mm_doc_r1.actions import ReadEntries, ReadEntry
from docagent_rl.systems.mm_doc_r1.rewards import TERMS
from docagent_rl.systems.mm_doc_r1.world import DocumentWorld, Snippet

_CHARS_A_WORD = 12


@dataclass(frozen=True, slots=True)
class FoundPage:
    """A page in a search result: its number, an extract, and whether it was read before."""

    page: int
    snippet: str
    read: bool


@dataclass(frozen=True, slots=True)
class ReaderNotes:
    """The reader's notes on one entry, with its pages (in the requested order) and sub-query."""

    pages: tuple[int, ...]
    query: str
    text: str

    @property
    def page_list(self) -> str:
        """The pages as text."""
        return ", ".join(f"p.{page}" for page in self.pages)

    @property
    def heading(self) -> str:
        """A heading that names the pages and the sub-query."""
        return f"Notes on {self.page_list} for the query: {self.query}"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the seeker; steps are numbered from 1.

    Args:
        reasoning: the text before the action.
        action: the action in canonical form; empty for an invalid step.
        found: pages that a search returned.
        notes: the reader's notes, one for each entry.
        remarks: lines about what was cut, left out, not found or wrong.
    """

    number: int
    reasoning: str
    action: str = ""
    found: tuple[FoundPage, ...] = ()
    notes: tuple[ReaderNotes, ...] = ()
    remarks: tuple[str, ...] = field(default=())

    @property
    def result(self) -> str:
        """The result of the step, in full."""
        return _result(self, ids_only=False)


def reasoning_of(text: str, max_words: int) -> str:
    """Return the first words of a seeker's text on one line, without lone surrogates."""
    words = encodable(text).split()
    line = cut_to_chars(" ".join(words[:max_words]), max_words * _CHARS_A_WORD)
    return f"{line} \N{HORIZONTAL ELLIPSIS}" if len(words) > max_words else line


def histories(steps: Sequence[Step], note_chars: int) -> Iterator[str]:
    """Yield the full history, then shorter and shorter versions.

    Steps are shortened one by one, the oldest first: first search results to page ids, then notes
    to `note_chars` characters, then reasoning to nothing. The last step is never shortened.
    """
    kept = list(steps)
    ids_only: set[int] = set()
    yield _render(kept, ids_only)
    old = range(len(kept) - 1)
    for index in old:
        if kept[index].found:
            ids_only.add(index)
            yield _render(kept, ids_only)
    for index in old:
        if any(len(notes.text) > note_chars for notes in kept[index].notes):
            notes = (replace(n, text=cut_to_chars(n.text, note_chars)) for n in kept[index].notes)
            kept[index] = replace(kept[index], notes=tuple(notes))
            yield _render(kept, ids_only)
    for index in old:
        if kept[index].reasoning:
            kept[index] = replace(kept[index], reasoning="")
            yield _render(kept, ids_only)


RESULT_CHARS = 300
SHORT_RESULT_CHARS = 100
"""Characters of a step's result in a trajectory's text, normally and if the text is too long."""


def trajectory_text(steps: Sequence[Step], *, max_tokens: int, count: TokenCounter) -> str:
    """Return the text by which trajectories of one question are compared (SPO, Eq. 4).

    The paper does not specify it. It contains the reasoning, the action and the beginning of the
    result of every step. Instructions, question and plan are left out, since a group shares them
    and they would pull all similarities towards 1. The answer is left out because it would leak the
    reward into its own baseline. If the text exceeds `max_tokens`, results are cut to
    `SHORT_RESULT_CHARS`; if it is still too long, its middle is cut.
    """
    text = _joined(steps, RESULT_CHARS)
    if count(text) > max_tokens:
        text = cut_middle(_joined(steps, SHORT_RESULT_CHARS), max_tokens, count)
    return text


def step_text(step: Step, result_chars: int = RESULT_CHARS) -> str:
    """Return the part of `trajectory_text` for one step; it may be empty."""
    pieces = (step.reasoning, step.action, cut_to_chars(step.result, result_chars))
    return "\n".join(piece for piece in pieces if piece)


def _joined(steps: Sequence[Step], result_chars: int) -> str:
    return "\n".join(text for step in steps if (text := step_text(step, result_chars)))


def _render(steps: Sequence[Step], ids_only: set[int]) -> str:
    return "\n\n".join(_step(step, ids_only=index in ids_only) for index, step in enumerate(steps))


def _step(step: Step, *, ids_only: bool) -> str:
    lines = [f"Step {step.number}"]
    if step.reasoning:
        lines.append(f"Reasoning: {step.reasoning}")
    lines.append(f"Action: {step.action or 'none that is valid'}")
    lines.append(f"Result:\n{_result(step, ids_only=ids_only)}")
    return "\n".join(lines)


def _result(step: Step, *, ids_only: bool) -> str:
    lines: list[str] = []
    if step.found and ids_only:
        lines.append("Found: " + ", ".join(f"p.{found.page}" for found in step.found))
    else:
        for found in step.found:
            lines.append(
                f"p.{found.page}{' (already read)' if found.read else ''}: {found.snippet}"
            )
    for notes in step.notes:
        lines += [notes.heading, notes.text]
    return "\n".join([*lines, *step.remarks])


NoteKey = tuple[tuple[int, ...], str]
"""Sorted pages and sub-query, which determine the reader's notes within a trajectory."""


@dataclass(slots=True)
class MmDocState(EnvState):
    """The state of one trajectory.

    Args:
        world: the prepared document.
        evidence: evidence pages that exist in `world`.
        answers: right answers; empty for an unanswerable question.
        notes: the reader's notes, in the order of reading.
        read: the distinct pages of all executed read entries, in order.
        found: the best snippet of each page that a search returned, in the order of finding.
        cached_entries: number of executed read entries that repeated an earlier one.
        shortened: number of prompts whose history was shortened.
        answer: the answer agent's answer, after the trajectory is rewarded.
        extracted: the short answer extracted from it; `None` if the extractor's reply could not be
            parsed.
    """

    world: DocumentWorld
    evidence: frozenset[int]
    answers: tuple[str, ...]
    plan: str = ""
    steps: list[Step] = field(default_factory=list)
    notes: dict[NoteKey, ReaderNotes] = field(default_factory=dict)
    read: dict[int, None] = field(default_factory=dict)
    found: dict[int, Snippet] = field(default_factory=dict)
    plan_cut: bool = False
    entries: int = 0
    cached_entries: int = 0
    shortened: int = 0
    answer: str | None = None
    extracted: str | None = None

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the trajectory by name.

        `finished` means that the seeker finished, `pages_seen` counts pages that were read, and
        `evidence_dropped` counts evidence pages outside the document or its window.
        """
        numbers = self.common_metrics(TERMS)
        return {
            **numbers,
            "finished": float(self.end is EndReason.FINISHED),
            "step_limit": float(self.end is EndReason.TURN_LIMIT),
            "ended_invalid": float(self.end is EndReason.INVALID),
            "searches": float(self.log.ran(Search)),
            "no_hit": float(self.log.effects(NoHit)),
            "reads": float(self.log.ran(ReadEntries)),
            "read_entries": float(self.entries),
            "cached_entries": float(self.cached_entries),
            "pages_seen": float(len(self.read)),
            "pages_found": float(len(self.found)),
            **measured({"retrieval_recall": recall(self.read, self.evidence)}),
            "has_evidence": float(bool(self.evidence)),
            "abstained": float(self.extracted == NOT_ANSWERABLE),
            "extraction_failed": float(self.answer is not None and self.extracted is None),
            "unanswerable": float(not self.answers),
            **measured(
                {"unanswerable_score": None if self.answers else numbers["reward/correctness"]}
            ),
            "prompts_shortened": float(self.shortened),
            "plan_cut": float(self.plan_cut),
            "evidence_dropped": float(len(self.sample.labelled_pages) - len(self.evidence)),
        }


def note_key(entry: ReadEntry) -> NoteKey:
    """Return the key of the notes on an entry."""
    return tuple(sorted(entry.pages)), entry.query
