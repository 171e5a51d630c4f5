"""The environment of MM-Doc-R1: plan, then search and read a long document, then have the answer written.

The policy is the seeker. It reads text alone, and every step begins a new context: instructions, question,
plan and the history of its steps. Around it stand a planner, a reader with eyes, an answer agent and an
extractor.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

from docagent_rl.actions.base import Finish
from docagent_rl.base.prompts import PromptSpec, PromptTemplate
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import (
    AssistantTurn,
    EndReason,
    Message,
    Observation,
    RewardTerms,
    Role,
    StepResult,
    TextPart,
)
from docagent_rl.envs.checks import references
from docagent_rl.envs.episode import EpisodeEnv
from docagent_rl.envs.search_log import SearchNote, note_search
from docagent_rl.envs.services import EnvServices
from docagent_rl.envs.token_budget import cut_to_tokens
from docagent_rl.envs.turn_log import LoggedTurn
from docagent_rl.records.record import Record
from docagent_rl.retrieval import Hit
from docagent_rl.rewards.mmlongbench import AnswerFormat, extracted_answer
from docagent_rl.systems.mm_doc_r1.actions import (
    KeywordSearch,
    MMDocGrammar,
    ReadEntries,
    ReadEntry,
    canonical,
    resolve,
    thought_end,
)
from docagent_rl.systems.mm_doc_r1.config import MMDocConfig, SearchEngine
from docagent_rl.systems.mm_doc_r1.episode import Episode, described_hits, note_key
from docagent_rl.systems.mm_doc_r1.history import (
    FoundPage,
    ReaderNotes,
    Step,
    histories,
    reasoning_of,
    step_text,
    trajectory_text,
)
from docagent_rl.systems.mm_doc_r1.page_index import Snippet, make_snippet
from docagent_rl.systems.mm_doc_r1.rewards import correctness
from docagent_rl.systems.mm_doc_r1.roles import Evidence, RolePlayers
from docagent_rl.systems.mm_doc_r1.world import DocumentWorld, blank_world, document_world

_TEMPLATE_TOKENS = 64
"""Tokens that a chat template puts around a prompt, cautiously."""


class MMDocEnv(EpisodeEnv[Episode]):
    """One episode of MM-Doc-R1.

    Each observation is a fresh context. The episode ends when the seeker finishes, when its steps are used up
    (the action of the last one is executed, too) or after `max_invalid_in_a_row` invalid steps. Then the
    answer is written, shortened and scored, always, also when nothing was read. The reward comes with the
    last turn; its terms are `rewards.TERMS`.

    Pages count as read when the reader has read them for an executed action, whether or not the seeker was
    shown the notes: they reach the answer agent either way.
    """

    title = "MM-Doc-R1"
    spec = PromptSpec(
        required=frozenset({"user", "feedback", "no_hit"}),
        optional=frozenset({"system"}),
        variables=frozenset(
            {"question", "plan", "history", "first_page", "last_page", "step", "steps", "top_k"}
            | {"max_pages", "max_entries", "max_keywords", "reason"}
        ),
        shown=frozenset({"question"}),
    )

    def __init__(
        self,
        config: MMDocConfig,
        services: EnvServices,
        prompt: PromptTemplate | None = None,
        *,
        validate: bool = False,
    ) -> None:
        super().__init__(config, services, prompt, validate=validate)
        self._count = services.count_tokens
        limits = (config.history.prompt_tokens, services.prompt_tokens)
        self._budget = min(limit for limit in limits if limit is not None) - _TEMPLATE_TOKENS
        self._roles = RolePlayers(services.roles, config, services.store, services.count_tokens)

    @staticmethod
    def make_grammar(config: MMDocConfig) -> MMDocGrammar:
        """Return the grammar of a configuration."""
        search = config.search
        return MMDocGrammar(max_keywords=search.max_keywords, max_keyword_chars=search.max_keyword_chars)

    def variables(self, episode: Episode) -> dict[str, Any]:
        """Return what every part of the prompt may name."""
        config, pages = self._config, episode.world.texts
        return {
            "plan": episode.plan,
            "first_page": min(pages),
            "last_page": max(pages),
            "step": len(episode.steps) + 1,
            "steps": config.max_steps,
            "top_k": config.search.top_k,
            "max_pages": config.read.max_pages,
            "max_entries": config.read.max_entries,
            "max_keywords": config.search.max_keywords,
        }

    def open_episode(self, sample: Record) -> Episode:
        """Return the state before the first step; reads and indexes all pages (see `DocEnv.open_episode`)."""
        world = document_world(sample, self._services.store, self._config)
        # refuses questions that cannot be scored
        references(sample)
        evidence = frozenset(
            page for doc_id, page in sample.gold_pages if doc_id == sample.doc_id and page in world.texts
        )
        return Episode(sample, world, evidence, () if sample.answerable is False else sample.answers)

    async def prepare(self, episode: Episode) -> None:
        """Have the planner write its plan (see `DocEnv.prepare`)."""
        episode.plan = await self._roles.plan(episode.question, episode.world)

    def show_prompt(self, episode: Episode) -> Observation:
        """Return the first context; cut a plan that leaves no room for steps (see `DocEnv.show_prompt`)."""
        room = self._budget - self._tokens(self._texts("")) + self._count(episode.plan)
        if self._count(episode.plan) > room:
            # the other half is for the steps
            episode.plan, episode.plan_cut = cut_to_tokens(episode.plan, room // 2, self._count), True
        return self._observe(episode)

    def opening(self, sample: Record) -> Observation:
        """Return the prompt with the longest plan there can be (see `DocEnv.opening`); no page is read.

        The table of contents grows with the document, but only the planner sees it; a plan is cut.
        """
        references(sample)
        world = blank_world(sample, self._services.store, self._config)
        return self.begin(Episode(sample, world, frozenset(), (), plan=self._roles.longest_plan()))

    async def step(self, turn: AssistantTurn) -> StepResult:
        """Execute the action of a step (see `DocEnv.step`)."""
        episode = self.running
        logged = self.read(episode, turn)
        step = await self._execute(episode, logged, self._begun(logged, turn.text))
        episode.log.turns.append(logged)
        episode.steps.append(step)
        history = {"reasoning": step.reasoning, "action": step.action, "result": step.result}
        chars = self._config.trajectory_text.result_chars
        info = {**logged.to_dict(), "history": history, "text": step_text(step, chars)}
        reason = self._end(episode)
        if reason is None:
            # tokens are counted until the history fits
            return StepResult(await asyncio.to_thread(self._observe, episode), info=info)
        began = time.perf_counter()
        terms = await self._finish(episode, reason)
        info["seconds"] = {**info["seconds"], "answer": time.perf_counter() - began}
        return StepResult(None, end=reason, terms=terms, info={**info, "outcome": self.outcome()})

    async def conclude(self, reason: EndReason) -> RewardTerms:
        """Settle an episode that the rollout had to end (see `DocEnv.conclude`).

        The answer is written from what was read until then, the last step's notes included: they were to be
        dropped from the seeker's context, not from the evidence.
        """
        episode = self.running
        if episode.log.turns:
            episode.log.turns[-1].dropped = True
        return await self._finish(episode, reason)

    def outcome(self) -> dict[str, Any] | None:
        """Return what the answer agent wrote, also of an episode that the rollout had to end."""
        episode = self.episode
        if episode.answer is None:
            return None
        return {"answer": episode.answer, "extracted": episode.extracted, "pages": list(episode.read)}

    def metrics(self) -> dict[str, float]:
        """Return numbers of the episode by name (see `Episode.metrics`)."""
        return self.episode.metrics()

    def trajectory_text(self) -> str:
        """Return the text of the episode that estimators embed (see `history.trajectory_text`)."""
        config = self._config.trajectory_text
        return trajectory_text(self.episode.steps, **config.model_dump(), count=self._count)

    def _begun(self, logged: LoggedTurn, text: str) -> Step:
        """Return the step before its action is executed."""
        action = logged.action
        start = thought_end(text)
        end = action.block[0] if action.block and action.block[0] >= start else len(text)
        reasoning = reasoning_of(text[start:end], self._config.history.reasoning_words)
        return Step(logged.turn, reasoning)

    async def _execute(self, episode: Episode, logged: LoggedTurn, step: Step) -> Step:
        match logged.action:
            case KeywordSearch() as action:
                return await self._search(episode, logged, step, action)
            case ReadEntries() as action:
                return await self._read(episode, logged, step, action)
            case Finish() as action:
                logged.effect = {"kind": "finish"}
                return replace(step, action=canonical(action))
        return self._refuse(logged, step)

    async def _search(self, episode: Episode, logged: LoggedTurn, step: Step, action: KeywordSearch) -> Step:
        began = time.perf_counter()
        hits = await self._hits(episode.world, action.query)
        snippets = await asyncio.to_thread(self._snippets, episode.world, action.query, hits)
        logged.seconds["search"] = time.perf_counter() - began
        found = tuple(FoundPage(hit.ref.page, s.text, hit.ref.page in episode.read) for hit, s in snippets)
        for hit, snippet in snippets:
            known = episode.found.get(hit.ref.page)
            if known is None or snippet.words > known.words:
                episode.found[hit.ref.page] = snippet
        logged.effect = {"kind": "hits" if hits else "no_hit", "hits": described_hits(hits, episode)}
        remarks = action.remarks if hits else (self.text("no_hit"), *action.remarks)
        return replace(step, action=canonical(action), found=found, remarks=remarks)

    async def _hits(self, world: DocumentWorld, query: str) -> list[Hit]:
        top_k = self._config.search.top_k
        if self._config.search.engine is SearchEngine.DOCUMENT_BM25:
            began = time.perf_counter()
            hits = await asyncio.to_thread(world.index.search, query, top_k)
            seconds = time.perf_counter() - began
            note_search(
                SearchNote("retriever", query, world.document.doc_id, top_k, frozenset(), hits, seconds)
            )
            return hits
        document = world.document
        outside = set(range(1, document.num_pages + 1)).difference(world.texts)
        return await self._services.retriever.search(
            query,
            doc_id=document.doc_id,
            top_k=top_k,
            exclude=frozenset(PageRef(document.doc_id, page) for page in outside),
        )

    def _snippets(self, world: DocumentWorld, query: str, hits: list[Hit]) -> list[tuple[Hit, Snippet]]:
        words, chars = frozenset(world.index.tokenize(query)), self._config.search.snippet_chars
        return [(hit, make_snippet(world.texts[hit.ref.page], words, chars)) for hit in hits]

    async def _read(self, episode: Episode, logged: LoggedTurn, step: Step, action: ReadEntries) -> Step:
        entries, remarks = resolve(
            action.entries,
            episode.world.texts,
            episode.question,
            max_pages=self._config.read.max_pages,
            max_entries=self._config.read.max_entries,
        )
        if not entries:
            logged.refuse("no entry names a page that exists")
            refused = self._refuse(logged, step)
            return replace(refused, remarks=(*refused.remarks, *remarks))
        known = [note_key(entry) in episode.notes for entry in entries]
        began = time.perf_counter()
        notes = await asyncio.gather(*(self._note(episode, entry) for entry in entries))
        logged.seconds["read"] = time.perf_counter() - began
        for entry, note in zip(entries, notes, strict=True):
            episode.notes.setdefault(note_key(entry), note)
            episode.read.update(dict.fromkeys(entry.pages))
        episode.entries += len(known)
        episode.cached_entries += sum(known)
        described = [
            {"pages": [f"{episode.sample.doc_id}#{page}" for page in entry.pages], "query": entry.query,
             "gold": [page in episode.evidence for page in entry.pages], "cached": cached}
            for entry, cached in zip(entries, known, strict=True)
        ]  # fmt: skip
        logged.effect = {"kind": "read", "entries": described, "remarks": list(remarks)}
        executed = canonical(replace(action, entries=entries))
        return replace(step, action=executed, notes=tuple(notes), remarks=remarks)

    async def _note(self, episode: Episode, entry: ReadEntry) -> ReaderNotes:
        known = episode.notes.get(note_key(entry))
        if known is not None:
            return replace(known, pages=entry.pages)
        text = await self._roles.read(episode.question, entry.query, entry.pages, episode.world)
        return ReaderNotes(entry.pages, entry.query, text)

    def _refuse(self, logged: LoggedTurn, step: Step) -> Step:
        return replace(step, remarks=(self.text("feedback", reason=self.feedback(logged)),))

    def _end(self, episode: Episode) -> EndReason | None:
        turns = episode.log.turns
        if turns[-1].ran(Finish):
            return EndReason.FINISHED
        streak = self._config.max_invalid_in_a_row
        if len(turns) >= streak and all(logged.invalid for logged in turns[-streak:]):
            return EndReason.INVALID
        return EndReason.TURN_LIMIT if len(turns) >= self._config.max_steps else None

    def _observe(self, episode: Episode) -> Observation:
        shorter = -1
        for history in histories(episode.steps, self._config.history.shortened_note_chars):
            shorter += 1
            texts = self._texts(history)
            if self._tokens(texts) <= self._budget:
                break
        episode.shortened += shorter > 0
        return Observation(tuple(Message(role, (TextPart(text),)) for role, text in texts), fresh=True)

    def _texts(self, history: str) -> list[tuple[Role, str]]:
        roles = [role for role in (Role.SYSTEM, Role.USER) if role.value in self._prompt]
        return [(role, self.text(role.value, history=history)) for role in roles]

    def _tokens(self, texts: list[tuple[Role, str]]) -> int:
        return sum(self._count(text) for _, text in texts)

    async def _finish(self, episode: Episode, reason: EndReason) -> RewardTerms:
        unread = {page: found.text for page, found in episode.found.items() if page not in episode.read}
        pages = {page: episode.world.texts[page] for page in episode.read}
        evidence = Evidence(tuple(episode.notes.values()), pages, unread)
        answer = await self._roles.answer(episode.question, evidence)
        # a policy that answers itself may say nothing, which must not pass for an abstention
        extracted = None
        if answer.strip():
            extracted = extracted_answer(await self._roles.extract(episode.question, answer))
        kind, right = AnswerFormat.of(episode.sample.answer_format), 0.0
        if extracted is not None:
            right = await asyncio.to_thread(correctness, episode.answers, extracted, kind)
        reward = self._config.reward
        pages_read = reward.page_score(episode.read.keys(), episode.evidence, right)
        values = {"page_recall": pages_read, "correctness": right}
        episode.answer, episode.extracted = answer, extracted
        return episode.settle(reason, {**values, "total": reward.formula.total(values)})
