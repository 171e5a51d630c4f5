"""What the answer agent of MM-Doc-R1 is shown of an episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from docagent_rl.envs.token_budget import TokenCounter, cut_to_chars
from docagent_rl.systems.mm_doc_r1.config import AnswerConfig
from docagent_rl.systems.mm_doc_r1.history import ReaderNotes


@dataclass(frozen=True, slots=True)
class Evidence:
    """What an episode found; the plan and the seeker's reasoning are no part of it.

    Args:
        notes: of the reader, in order.
        pages: text of the pages that were read, in order.
        snippets: of pages that were found and not read, the best first.
    """

    notes: Sequence[ReaderNotes]
    pages: Mapping[int, str]
    snippets: Mapping[int, str]


def answer_context(evidence: Evidence, config: AnswerConfig, count: TokenCounter) -> str:
    """The material for an answer within `config.max_tokens` (appendix A.3; layout and budget are a choice).

    In order: the reader's notes, the text of the pages that were read, snippets of found pages. What does not
    fit is dropped in this order: snippets from the last, page texts from the last, notes from the oldest. A
    single note beyond the budget stays whole: its length is limited where it is written.

    Returns:
        The text; the empty string when there is nothing.
    """
    # without the sub-queries: they are the seeker's words, and a guess among them would pass for evidence
    notes = [f"Notes on {note.page_list}:\n{note.text}" for note in evidence.notes]
    pages = _page_texts(evidence.pages, config)
    snippets = _snippets(evidence.snippets, config, count)
    room = config.max_tokens - sum(map(count, (*notes, *pages, *snippets)))
    for pieces, at in ((snippets, -1), (pages, -1), (notes, 0)):
        while room < 0 and pieces and not (pieces is notes and len(notes) == 1):
            room += count(pieces.pop(at))
    return "\n\n".join((*notes, *pages, *snippets))


def _page_texts(pages: Mapping[int, str], config: AnswerConfig) -> list[str]:
    if not config.page_text:
        return []
    texts = ((page, text.strip()) for page, text in pages.items())
    return [f"Text of p.{page}:\n{cut_to_chars(text, config.page_chars)}" for page, text in texts if text]


def _snippets(found: Mapping[int, str], config: AnswerConfig, count: TokenCounter) -> list[str]:
    if not config.snippets:
        return []
    room = int(config.max_tokens * config.snippet_share)
    kept: list[str] = []
    for page, text in found.items():
        snippet = f"Found on p.{page}, not read: {cut_to_chars(text, config.snippet_chars)}"
        room -= count(snippet)
        if room < 0:
            break
        kept.append(snippet)
    return kept
