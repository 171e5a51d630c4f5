"""The environment of MM-Doc-R1: plan, search and read a long document, then write the answer.

The policy is the seeker. It reads only text, and every step starts a new context: instructions,
question, plan and the history of its steps. Further models assist it: a planner, a vision-language
reader, an answer agent and an extractor.
"""

import asyncio
import time
from dataclasses import replace

from docagent_rl.actions.base import Finish
from docagent_rl.base.prompts import PromptSpec
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
from docagent_rl.envs.checks import pages_outside, references
from docagent_rl.envs.effects import EntriesRead, Hits, NoHit, Nothing, NothingShown
from docagent_rl.envs.search_log import SearchNote, note_search
from docagent_rl.envs.shown_page import EntryRecord, NamedPage
from docagent_rl.envs.token_budget import cut_to_tokens
from docagent_rl.envs.tool_env import ToolEnv
from docagent_rl.envs.turn_log import LoggedTurn
from docagent_rl.envs.turn_record import WrittenAnswer
from docagent_rl.retrieval import Hit
from docagent_rl.rewards.mmlongbench import AnswerFormat, extracted_answer
from docagent_rl.samples.sample import Sample
from docagent_rl.systems.mm_doc_r1.actions import (
    KeywordSearch,
    MMDocGrammar,
    ReadEntries,
    ReadEntry,
    canonical,
    resolve,
    thought_end,
)
from docagent_rl.systems.mm_doc_r1.config import MMDocConfig, MmDocSearchEngine
from docagent_rl.systems.mm_doc_r1.rewards import correctness
from docagent_rl.systems.mm_doc_r1.roles import ReaderEvidence, RolePlayers
from docagent_rl.systems.mm_doc_r1.state import (
    FoundPage,
    MmDocState,
    ReaderNotes,
    Step,
    histories,
    note_key,
    reasoning_of,
    step_text,
    trajectory_text,
)
from docagent_rl.systems.mm_doc_r1.world import (
    DocumentWorld,
    Snippet,
    blank_world,
    document_world,
    make_snippet,
)

_TEMPLATE_TOKENS = 64
"""A cautious estimate of the tokens that a chat template adds to a prompt."""


class MMDocEnv(ToolEnv[MMDocConfig, MmDocState]):
    """One trajectory of MM-Doc-R1.

    Each observation is a new context. The trajectory ends when the seeker finishes, when it has
    used all steps (the action of the last one is executed too) or after `max_invalid_in_a_row`
    invalid steps. The answer is then always written, shortened and scored, even if nothing was
    read. The reward is given in the last turn; its terms are `rewards.TERMS`.

    Pages count as read if the reader has read them for an executed action, whether or not the
    seeker saw the notes: the notes reach the answer agent either way.
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

    def set_up(self) -> None:
        """Compute the token budget of a prompt, and create the roles."""
        config = self._config
        services = self._services
        self._count = services.count_tokens
        limits = (config.history.prompt_tokens, services.prompt_tokens)
        self._budget = min(limit for limit in limits if limit is not None) - _TEMPLATE_TOKENS
        self._roles = RolePlayers(services.roles, config, services.store, services.count_tokens)

    @staticmethod
    def make_grammar(config: MMDocConfig) -> MMDocGrammar:
        """Return the grammar for a configuration."""
        search = config.search
        return MMDocGrammar(
            max_keywords=search.max_keywords, max_keyword_chars=search.max_keyword_chars
        )

    def variables(self, state: MmDocState) -> dict[str, object]:
        """Return the variables that all parts of the prompt may use."""
        config = self._config
        pages = state.world.texts
        return {
            "plan": state.plan,
            "first_page": min(pages),
            "last_page": max(pages),
            "step": len(state.steps) + 1,
            "steps": config.max_steps,
            "top_k": config.search.top_k,
            "max_pages": config.read.max_pages,
            "max_entries": config.read.max_entries,
            "max_keywords": config.search.max_keywords,
        }

    def new_state(self, sample: Sample) -> MmDocState:
        """Read and index all pages; return the state before the first step (see
        `DocEnv.new_state`).
        """
        world = document_world(sample, self._services.store, self._config)
        # raises for questions that cannot be scored
        references(sample)
        evidence = frozenset(
            page
            for doc_id, page in sample.gold_pages
            if doc_id == sample.doc_id and page in world.texts
        )
        return MmDocState(
            sample, world, evidence, () if sample.answerable is False else sample.answers
        )

    async def prepare(self, state: MmDocState) -> None:
        """Have the planner write its plan (see `DocEnv.prepare`)."""
        state.plan = await self._roles.plan(state.sample.question, state.world)

    def show_prompt(self, state: MmDocState) -> Observation:
        """Return the first context, with the plan cut if it leaves no room (see
        `DocEnv.show_prompt`).
        """
        room = self._budget - self._tokens(self._texts("")) + self._count(state.plan)
        if self._count(state.plan) > room:
            # keep the other half for the steps
            state.plan = cut_to_tokens(state.plan, room // 2, self._count)
            state.plan_cut = True
        return self._observe(state)

    def opening(self, sample: Sample) -> Observation:
        """Return the prompt with a plan of maximum length, without reading pages (see
        `DocEnv.opening`).

        The table of contents grows with the document, but only the planner sees it; plans are cut.
        """
        references(sample)
        world = blank_world(sample, self._services.store, self._config)
        return self.begin(
            MmDocState(sample, world, frozenset(), (), plan=self._roles.longest_plan())
        )

    async def step(self, turn: AssistantTurn) -> StepResult:
        """Execute the action of a step (see `DocEnv.step`)."""
        state = self.running
        logged = self.read(state, turn)
        action = logged.action
        start = thought_end(turn.text)
        end = action.block[0] if action.block and action.block[0] >= start else len(turn.text)
        reasoning = reasoning_of(turn.text[start:end], self._config.history.reasoning_words)
        step = Step(logged.turn, reasoning)
        match action:
            case KeywordSearch():
                step = await self._search(state, logged, step, action)
            case ReadEntries():
                step = await self._read(state, logged, step, action)
            case Finish():
                logged.effect = NothingShown(Nothing.FINISH)
                step = replace(step, action=canonical(action))
            case _:
                step = self._refuse(logged, step)
        state.log.turns.append(logged)
        state.steps.append(step)
        history = {"reasoning": step.reasoning, "action": step.action, "result": step.result}
        reason = self._end(state)
        if reason is None:
            record = replace(logged.record(), text=step_text(step), own={"history": history})
            # in a thread, since tokens are counted repeatedly until the history fits
            return StepResult(await asyncio.to_thread(self._observe, state), record=record)
        began = time.perf_counter()
        terms = await self._finish(state, reason)
        logged.seconds["answer"] = time.perf_counter() - began
        record = replace(
            logged.record(), text=step_text(step), written=self.outcome(), own={"history": history}
        )
        return StepResult(None, end=reason, terms=terms, record=record)

    async def conclude(self, reason: EndReason) -> RewardTerms:
        """Settle a trajectory that the rollout had to end (see `DocEnv.conclude`).

        The answer is based on everything that was read, including the notes of the last step: they
        were dropped from the seeker's context, not from the evidence.
        """
        state = self.running
        if state.log.turns:
            state.take_back()
        return await self._finish(state, reason)

    def outcome(self) -> WrittenAnswer | None:
        """Return the answer agent's answer, also for a trajectory that the rollout had to end."""
        state = self.state
        if state.answer is None:
            return None
        return WrittenAnswer(state.answer, state.extracted, tuple(state.read))

    def trajectory_text(self) -> str:
        """Return the text of the trajectory that estimators embed (see `state.trajectory_text`)."""
        most = self._config.trajectory_text.max_tokens
        return trajectory_text(self.state.steps, max_tokens=most, count=self._count)

    async def _search(
        self, state: MmDocState, logged: LoggedTurn, step: Step, action: KeywordSearch
    ) -> Step:
        began = time.perf_counter()
        hits = await self._hits(state.world, action.query)
        snippets = await asyncio.to_thread(self._snippets, state.world, action.query, hits)
        logged.seconds["search"] = time.perf_counter() - began
        found = tuple(
            FoundPage(hit.ref.page, s.text, hit.ref.page in state.read) for hit, s in snippets
        )
        for hit, snippet in snippets:
            known = state.found.get(hit.ref.page)
            if known is None or snippet.words > known.words:
                state.found[hit.ref.page] = snippet
        named = tuple(
            NamedPage(
                hit.ref,
                rank=rank,
                score=float(hit.score),
                read=hit.ref.page in state.read,
                gold=hit.ref.page in state.evidence,
            )
            for rank, hit in enumerate(hits, start=1)
        )
        logged.effect = Hits(named) if named else NoHit()
        remarks = action.remarks if hits else (self.text("no_hit"), *action.remarks)
        return replace(step, action=canonical(action), found=found, remarks=remarks)

    async def _hits(self, world: DocumentWorld, query: str) -> list[Hit]:
        top_k = self._config.search.top_k
        if self._config.search.engine is MmDocSearchEngine.DOCUMENT_BM25:
            began = time.perf_counter()
            hits = await asyncio.to_thread(world.index.search, query, top_k)
            seconds = time.perf_counter() - began
            note_search(
                SearchNote(
                    "retriever", query, world.document.doc_id, top_k, frozenset(), hits, seconds
                )
            )
            return hits
        return await self._services.retriever.search(
            query,
            doc_id=world.document.doc_id,
            top_k=top_k,
            exclude=pages_outside(self.state.sample, self._services.store),
        )

    def _snippets(
        self, world: DocumentWorld, query: str, hits: list[Hit]
    ) -> list[tuple[Hit, Snippet]]:
        words = frozenset(world.index.tokenize(query))
        chars = self._config.search.snippet_chars
        return [(hit, make_snippet(world.texts[hit.ref.page], words, chars)) for hit in hits]

    async def _read(
        self, state: MmDocState, logged: LoggedTurn, step: Step, action: ReadEntries
    ) -> Step:
        entries, remarks = resolve(
            action.entries,
            state.world.texts,
            state.sample.question,
            max_pages=self._config.read.max_pages,
            max_entries=self._config.read.max_entries,
        )
        if not entries:
            logged.refuse("no entry names a page that exists")
            refused = self._refuse(logged, step)
            return replace(refused, remarks=(*refused.remarks, *remarks))
        known = [note_key(entry) in state.notes for entry in entries]
        began = time.perf_counter()
        notes = await asyncio.gather(*(self._note(state, entry) for entry in entries))
        logged.seconds["read"] = time.perf_counter() - began
        for entry, note in zip(entries, notes, strict=True):
            state.notes.setdefault(note_key(entry), note)
            state.read.update(dict.fromkeys(entry.pages))
        state.entries += len(known)
        state.cached_entries += sum(known)
        described = tuple(
            EntryRecord(
                pages=tuple(PageRef(state.sample.doc_id, page) for page in entry.pages),
                query=entry.query,
                gold=tuple(page in state.evidence for page in entry.pages),
                cached=cached,
            )
            for entry, cached in zip(entries, known, strict=True)
        )
        logged.effect = EntriesRead(described, tuple(remarks))
        executed = canonical(replace(action, entries=entries))
        return replace(step, action=executed, notes=tuple(notes), remarks=remarks)

    async def _note(self, state: MmDocState, entry: ReadEntry) -> ReaderNotes:
        known = state.notes.get(note_key(entry))
        if known is not None:
            return replace(known, pages=entry.pages)
        text = await self._roles.read(state.sample.question, entry.query, entry.pages, state.world)
        return ReaderNotes(entry.pages, entry.query, text)

    def _refuse(self, logged: LoggedTurn, step: Step) -> Step:
        return replace(step, remarks=(self.text("feedback", reason=self.feedback(logged)),))

    def _end(self, state: MmDocState) -> EndReason | None:
        turns = state.log.turns
        if turns[-1].ran(Finish):
            return EndReason.FINISHED
        streak = self._config.max_invalid_in_a_row
        if len(turns) >= streak and all(logged.invalid for logged in turns[-streak:]):
            return EndReason.INVALID
        return EndReason.TURN_LIMIT if len(turns) >= self._config.max_steps else None

    def _observe(self, state: MmDocState) -> Observation:
        shorter = -1
        for history in histories(state.steps, self._config.history.shortened_note_chars):
            shorter += 1
            texts = self._texts(history)
            if self._tokens(texts) <= self._budget:
                break
        state.shortened += shorter > 0
        return Observation(
            tuple(Message(role, (TextPart(text),)) for role, text in texts), fresh=True
        )

    def _texts(self, history: str) -> list[tuple[Role, str]]:
        roles = [role for role in (Role.SYSTEM, Role.USER) if role.value in self._prompt]
        return [(role, self.text(role.value, history=history)) for role in roles]

    def _tokens(self, texts: list[tuple[Role, str]]) -> int:
        return sum(self._count(text) for _, text in texts)

    async def _finish(self, state: MmDocState, reason: EndReason) -> RewardTerms:
        unread = {page: found.text for page, found in state.found.items() if page not in state.read}
        pages = {page: state.world.texts[page] for page in state.read}
        evidence = ReaderEvidence(tuple(state.notes.values()), pages, unread)
        answer = await self._roles.answer(state.sample.question, evidence)
        # if the policy plays the answer agent, its answer may be empty; that must not count as an
        # abstention
        extracted = None
        if answer.strip():
            extracted = extracted_answer(await self._roles.extract(state.sample.question, answer))
        kind = AnswerFormat.of(state.sample.answer_format)
        right = 0.0
        if extracted is not None:
            right = await asyncio.to_thread(correctness, state.answers, extracted, kind)
        reward = self._config.reward
        pages_read = reward.page_score(state.read.keys(), state.evidence, right)
        values = {"page_recall": pages_read, "correctness": right}
        state.answer = answer
        state.extracted = extracted
        return state.finish(reason, {**values, "total": reward.formula.total(values)})
