"""The planner, reader, answer agent and extractor of MM-Doc-R1, remote or embedded."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from docagent_rl.base.prompts import PromptSpec, load_prompt
from docagent_rl.base.untrusted import neutralized_values
from docagent_rl.envs.base import ImagePart, Message, Part, Role, TextPart
from docagent_rl.envs.roles import RoleModel, RoleName
from docagent_rl.envs.rule_roles import answer_from, extract_answer, plan_search, read_pages
from docagent_rl.envs.token_budget import TokenCounter, cut_to_chars, cut_to_tokens
from docagent_rl.envs.views import page_view
from docagent_rl.rewards.mmlongbench import unlabelled
from docagent_rl.systems.mm_doc_r1.config import AnswerAgentConfig, MMDocConfig
from docagent_rl.systems.mm_doc_r1.state import ReaderNotes
from docagent_rl.systems.mm_doc_r1.world import DocumentWorld

if TYPE_CHECKING:
    from docagent_rl.documents.store import DocumentStore

_SPECS: Mapping[RoleName, frozenset[str]] = {
    RoleName.PLANNER: frozenset({"question", "toc", "figures", "max_items", "max_pages", "pages"}),
    RoleName.READER: frozenset({"question", "query", "pages"}),
    RoleName.ANSWER: frozenset({"question", "context"}),
    RoleName.EXTRACTOR: frozenset({"question", "answer"}),
}
_ITEM = re.compile(r"\s*(?:\(\d+\)|\d+[.):]|step\s+\d+)", re.IGNORECASE)


def role_prompt_spec(role: RoleName) -> PromptSpec:
    """Return the specification of a role's prompt file."""
    return PromptSpec(frozenset({"user"}), frozenset({"system"}), _SPECS[role])


@dataclass(frozen=True, slots=True)
class ReaderEvidence:
    """The evidence collected in a trajectory.

    Args:
        notes: the reader's notes.
        pages: texts of the pages that were read, in order.
        snippets: snippets of pages that were found but not read, the best first.
    """

    notes: Sequence[ReaderNotes]
    pages: Mapping[int, str]
    snippets: Mapping[int, str]


class RolePlayers:
    """The roles that assist a seeker; an embedded rule plays a role without a model.

    Raises (all methods that ask a model):
        InfrastructureError: the model gave no reply.
    """

    def __init__(
        self,
        models: Mapping[str, RoleModel],
        config: MMDocConfig,
        store: DocumentStore,
        count: TokenCounter,
    ) -> None:
        self._models = models
        self._config = config
        self._store = store
        self._count = count
        self._prompts = {
            role: load_prompt(getattr(config.prompts, role.value), role_prompt_spec(role))
            for role in RoleName
        }

    def longest_plan(self) -> str:
        """Return a text with the maximum number of tokens of a plan."""
        return _longest(self._config.plan.max_tokens, self._count)

    async def plan(self, question: str, world: DocumentWorld) -> str:
        """Return a numbered plan of at most `plan.max_items` items, the same for a whole group."""
        if RoleName.PLANNER not in self._models:
            return self._fitted(plan_search(question, world.headings))
        config = self._config
        reply = await self._ask(
            RoleName.PLANNER,
            question=question,
            toc=world.toc,
            figures=world.figures,
            max_items=config.plan.max_items,
            max_pages=config.read.max_pages,
            pages=list(world.texts),
        )
        return await asyncio.to_thread(self._fitted, reply)

    async def read(
        self, question: str, query: str, pages: Sequence[int], world: DocumentWorld
    ) -> str:
        """Return notes on pages, at most `read.note_tokens` tokens; equal requests get equal
        notes.
        """
        # sort, so that notes do not depend on the order in which pages are requested
        pages = sorted(pages)
        if RoleName.READER not in self._models:
            notes = read_pages((page, world.texts[page]) for page in pages)
        else:
            images = await asyncio.to_thread(self._images, pages, world)
            notes = await self._ask(
                RoleName.READER, images, question=question, query=query, pages=list(pages)
            )
        return await asyncio.to_thread(
            cut_to_tokens, notes, self._config.read.note_tokens, self._count
        )

    async def answer(self, question: str, evidence: ReaderEvidence) -> str:
        """Return a free-form answer from the evidence."""
        if RoleName.ANSWER not in self._models:
            pages = evidence.pages.values() if self._config.answer.page_text else ()
            return answer_from(question, [*(note.text for note in evidence.notes), *pages])
        context = await asyncio.to_thread(
            answer_context, evidence, self._config.answer, self._count
        )
        return await self._ask(RoleName.ANSWER, question=question, context=context)

    async def extract(self, question: str, answer: str) -> str:
        """Return an extractor's reply, which `mmlongbench.extracted_answer` parses."""
        if RoleName.EXTRACTOR not in self._models:
            return extract_answer(question, answer)
        return await self._ask(
            RoleName.EXTRACTOR, question=unlabelled(question), answer=unlabelled(answer)
        )

    def _fitted(self, plan: str) -> str:
        return cut_to_tokens(
            cut_items(plan, self._config.plan.max_items), self._config.plan.max_tokens, self._count
        )

    def _images(self, pages: Sequence[int], world: DocumentWorld) -> list[Part]:
        parts: list[Part] = []
        for number in pages:
            image = page_view(world.document.page(number), self._config.display, turn=0).image
            parts += [TextPart(f"Page {number}:"), ImagePart(image)]
        return parts

    async def _ask(self, role: RoleName, images: Sequence[Part] = (), **variables: Any) -> str:
        prompt = self._prompts[role]
        variables = neutralized_values(variables)
        messages = []
        if "system" in prompt:
            messages.append(Message(Role.SYSTEM, (TextPart(prompt.render("system", **variables)),)))
        messages.append(Message(Role.USER, (TextPart(prompt.render("user", **variables)), *images)))
        return await self._models[role].complete(messages)


@functools.lru_cache(maxsize=8)
def _longest(tokens: int, count: TokenCounter) -> str:
    return cut_to_tokens("1 " * (tokens + 1), tokens, count)


def cut_items(plan: str, most: int) -> str:
    """Return a plan up to its first `most` numbered items; a text without items is kept whole."""
    kept: list[str] = []
    items = 0
    for line in plan.strip().splitlines():
        items += _ITEM.match(line) is not None
        if items > most:
            break
        kept.append(line)
    return "\n".join(kept).rstrip()


def answer_context(evidence: ReaderEvidence, config: AnswerAgentConfig, count: TokenCounter) -> str:
    """Return the answer agent's input within `config.max_tokens` (appendix A.3; our own layout).

    It contains, in order, the reader's notes, the text of the pages that were read, and snippets of
    found pages. What does not fit is dropped in this order: the last snippets, the last page texts,
    the oldest notes. A single note is kept whole even if it exceeds the budget: its length is
    limited when it is written.
    """
    # leave out the sub-queries: they are the seeker's words, and a guess in them would pass for
    # evidence
    notes = [f"Notes on {note.page_list}:\n{note.text}" for note in evidence.notes]
    pages = _page_texts(evidence.pages, config)
    snippets = _snippets(evidence.snippets, config, count)
    room = config.max_tokens - sum(map(count, (*notes, *pages, *snippets)))
    for pieces, at in ((snippets, -1), (pages, -1), (notes, 0)):
        while room < 0 and pieces and not (pieces is notes and len(notes) == 1):
            room += count(pieces.pop(at))
    return "\n\n".join((*notes, *pages, *snippets))


def _page_texts(pages: Mapping[int, str], config: AnswerAgentConfig) -> list[str]:
    if not config.page_text:
        return []
    texts = ((page, text.strip()) for page, text in pages.items())
    return [
        f"Text of p.{page}:\n{cut_to_chars(text, config.page_chars)}"
        for page, text in texts
        if text
    ]


def _snippets(
    found: Mapping[int, str], config: AnswerAgentConfig, count: TokenCounter
) -> list[str]:
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
