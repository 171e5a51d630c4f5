"""The steps of a seeker of MM-Doc-R1 as text: for its next prompt and for embedding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from docagent_rl.base.text import encodable
from docagent_rl.envs.token_budget import TokenCounter, cut_middle, cut_to_chars

_CHARS_A_WORD = 12


@dataclass(frozen=True, slots=True)
class FoundPage:
    """A page in a search result: its number, an extract, and whether it was read before."""

    page: int
    snippet: str
    read: bool


@dataclass(frozen=True, slots=True)
class ReaderNotes:
    """The reader's notes on one entry.

    Args:
        pages: that were read, in the order asked for.
        query: the sub-query.
        text: the notes.
    """

    pages: tuple[int, ...]
    query: str
    text: str

    @property
    def page_list(self) -> str:
        """The pages as text."""
        return ", ".join(f"p.{page}" for page in self.pages)

    @property
    def heading(self) -> str:
        """Names the pages and the sub-query."""
        return f"Notes on {self.page_list} for the query: {self.query}"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the seeker.

    Args:
        number: from 1.
        reasoning: what it wrote before its action.
        action: in canonical form; empty for an invalid step.
        found: pages that a search returned.
        notes: of the reader, one for each entry.
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
        """What the step led to, in full."""
        return _result(self, ids_only=False)


def reasoning_of(text: str, max_words: int) -> str:
    """Return the first words of what a seeker wrote, on one line that can be written as UTF-8."""
    words = encodable(text).split()
    line = cut_to_chars(" ".join(words[:max_words]), max_words * _CHARS_A_WORD)
    return f"{line} \N{HORIZONTAL ELLIPSIS}" if len(words) > max_words else line


def histories(steps: Sequence[Step], note_chars: int) -> Iterator[str]:
    """Yield the history in full, then ever shorter versions.

    Shortened one by one, the oldest first: search results to page ids; then notes to `note_chars` characters;
    then reasoning to nothing. The last step stays as it is.
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
            kept[index] = _shorter_notes(kept[index], note_chars)
            yield _render(kept, ids_only)
    for index in old:
        if kept[index].reasoning:
            kept[index] = replace(kept[index], reasoning="")
            yield _render(kept, ids_only)


def trajectory_text(
    steps: Sequence[Step],
    *,
    result_chars: int,
    short_result_chars: int,
    max_tokens: int,
    count: TokenCounter,
) -> str:
    """Return the text by which trajectories of one question are compared (SPO, Eq. 4; the paper names no
    form).

    Reasoning, action and the beginning of the result of every step. Left out are instructions, question and
    plan, which a group shares and which would pull all similarities to 1, and the answer, which would leak
    the reward into its own baseline.

    Args:
        steps: of one trajectory.
        result_chars: characters of each result.
        short_result_chars: the same when the text exceeds the budget.
        max_tokens: the budget; what still exceeds it loses its middle.
        count: of tokens.
    """
    text = _joined(steps, result_chars)
    if count(text) > max_tokens:
        text = cut_middle(_joined(steps, short_result_chars), max_tokens, count)
    return text


def step_text(step: Step, result_chars: int) -> str:
    """Return the part of `trajectory_text` that one step is; it may be empty."""
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
        lines += [_hit(found) for found in step.found]
    for notes in step.notes:
        lines += [notes.heading, notes.text]
    return "\n".join([*lines, *step.remarks])


def _hit(found: FoundPage) -> str:
    return f"p.{found.page}{' (already read)' if found.read else ''}: {found.snippet}"


def _shorter_notes(step: Step, chars: int) -> Step:
    return replace(step, notes=tuple(replace(n, text=cut_to_chars(n.text, chars)) for n in step.notes))
