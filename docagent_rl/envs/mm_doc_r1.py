"""The environment of MM-Doc-R1: plan, then search and read a long document, then have the answer written.

The policy is the seeker. It reads text alone, and every step begins a new context: instructions, question,
plan and the history of its steps. Around it stand a planner, a reader with eyes, an answer agent and an
extractor.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from docagent_rl.actions.arguments import bad_argument
from docagent_rl.actions.base import Finish, Invalid
from docagent_rl.actions.mm_doc_r1 import (
    KeywordSearch,
    MMDocGrammar,
    ReadEntries,
    ReadEntry,
    canonical,
    thought_end,
)
from docagent_rl.data.record import Record
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import (
    AssistantTurn,
    DocEnv,
    EndReason,
    Message,
    Observation,
    RewardTerms,
    Role,
    StepResult,
    TextPart,
)
from docagent_rl.envs.checks import references
from docagent_rl.envs.mm_doc_r1_answer import Evidence
from docagent_rl.envs.mm_doc_r1_config import MMDocConfig, SearchEngine
from docagent_rl.envs.mm_doc_r1_episode import TERMS, Episode, Outcome, note_key
from docagent_rl.envs.mm_doc_r1_history import (
    FoundPage,
    ReaderNotes,
    Step,
    histories,
    reasoning_of,
    trajectory_text,
)
from docagent_rl.envs.mm_doc_r1_reading import resolve
from docagent_rl.envs.mm_doc_r1_roles import RolePlayers
from docagent_rl.envs.mm_doc_r1_world import DocumentWorld, document_world
from docagent_rl.envs.roles import RoleName
from docagent_rl.envs.services import EnvServices
from docagent_rl.envs.turn_log import TurnRecord
from docagent_rl.prompts import PromptSpec, PromptTemplate, load_prompt
from docagent_rl.retrieval import Hit
from docagent_rl.retrieval.snippets import Snippet, make_snippet
from docagent_rl.rewards.mm_doc_r1 import correctness
from docagent_rl.rewards.mmlongbench import AnswerFormat, extracted_answer

if TYPE_CHECKING:
    from docagent_rl.systems import System

MM_DOC_PROMPT = PromptSpec(
    required=frozenset({"user", "feedback", "no_hit"}),
    optional=frozenset({"system"}),
    variables=frozenset(
        {"question", "plan", "history", "first_page", "last_page", "step", "steps", "top_k", "max_pages",
         "max_entries", "max_keywords", "reason"}
    ),
)  # fmt: skip
_TEMPLATE_TOKENS = 64


class MMDocEnv(DocEnv):
    """One episode of MM-Doc-R1.

    Each observation is a fresh context. The episode ends when the seeker finishes, when its steps are used up
    (the action of the last one is executed, too) or after `max_invalid_in_a_row` invalid steps. Then the
    answer is written, shortened and scored, always, also when nothing was read. The reward comes with the
    last turn; its terms are `TERMS`.

    Pages count as read when the reader has read them for an executed action, whether or not the seeker was
    shown the notes: they reach the answer agent either way.

    Args:
        config: what to play.
        services: documents, retriever, roles, token counter.
        prompt: the seeker's, parts as in `MM_DOC_PROMPT`; by default the package's.
        validate: accepted for symmetry; validation is played like training.
    """

    def __init__(
        self,
        config: MMDocConfig,
        services: EnvServices,
        prompt: PromptTemplate | None = None,
        *,
        validate: bool = False,
    ) -> None:
        self._config = config
        self._services = services
        self._prompt = prompt or load_prompt(config.prompt, MM_DOC_PROMPT)
        self._grammar = make_grammar(config)
        self._reward = config.reward.rule()
        self._count = services.count_tokens
        self._roles = RolePlayers(services.roles, config, services.store, services.count_tokens)
        self._state: Episode | None = None

    def reset(self, sample: Record) -> Observation:
        """Begin an episode whose planner is embedded (see `DocEnv.reset`).

        Raises:
            UserError: the sample cannot be played.
            RuntimeError: the planner is a service: use `begin`.
        """
        if not self._roles.embedded(RoleName.PLANNER):
            raise RuntimeError(
                "the planner of this environment is a service: call begin() instead of reset()"
            )
        episode = self._open(sample)
        episode.plan = self._roles.planned(sample.question, episode.world)
        return self._start(episode)

    async def begin(self, sample: Record) -> Observation:
        """Begin an episode with the plan of the planner (see `DocEnv.begin`).

        Raises:
            UserError: the sample cannot be played.
            InfrastructureError: the planner failed.
        """
        # the first look at a document reads and indexes all its pages
        episode = await asyncio.to_thread(self._open, sample)
        episode.plan = await self._roles.plan(sample.question, episode.world)
        return self._start(episode)

    async def step(self, turn: AssistantTurn) -> StepResult:
        """Execute the action of a step (see `DocEnv.step`)."""
        episode = self._running()
        parsed = self._grammar.parse(turn.text, turn.stop)
        record = TurnRecord(turn=len(episode.log.records) + 1, parsed=parsed)
        step = await self._execute(episode, record, self._begun(record, turn.text))
        episode.log.records.append(record)
        episode.steps.append(step)
        history = {"reasoning": step.reasoning, "action": step.action, "result": step.result}
        info = {**record.to_dict(), "history": history}
        reason = self._end(episode)
        if reason is None:
            return StepResult(self._observe(episode), info=info)
        began = time.perf_counter()
        terms = await self._settle(episode, reason)
        info["seconds"] = {**info["seconds"], "answer": time.perf_counter() - began}
        return StepResult(None, end=reason, terms=terms, info={**info, "outcome": _described(episode)})

    async def conclude(self, reason: EndReason) -> RewardTerms:
        """Settle an episode that the rollout had to end (see `DocEnv.conclude`).

        The answer is written from what was read until then, the last step's notes included: they were to be
        dropped from the seeker's context, not from the evidence.
        """
        episode = self._running()
        if episode.log.records:
            episode.log.records[-1].dropped = True
        return await self._settle(episode, reason)

    def metrics(self) -> dict[str, float]:
        """Numbers of the episode by name (see `Episode.metrics`)."""
        return self._require().metrics()

    def trajectory_text(self) -> str:
        """The text of the episode that estimators embed (see `mm_doc_r1_history.trajectory_text`)."""
        config = self._config.trajectory_text
        return trajectory_text(self._require().steps, **config.model_dump(), count=self._count)

    def _open(self, sample: Record) -> Episode:
        world = document_world(sample, self._services.store, self._config)
        # refuses questions that cannot be scored
        references(sample)
        evidence = frozenset(
            page for doc_id, page in sample.gold_pages if doc_id == sample.doc_id and page in world.texts
        )
        return Episode(sample, world, evidence, () if sample.answerable is False else sample.answers)

    def _start(self, episode: Episode) -> Observation:
        self._state = episode
        return self._observe(episode)

    def _begun(self, record: TurnRecord, text: str) -> Step:
        """The step before its action is executed."""
        action = record.parsed.action
        start = thought_end(text)
        end = action.block[0] if action.block and action.block[0] >= start else len(text)
        reasoning = reasoning_of(text[start:end], self._config.history.reasoning_words)
        return Step(record.turn, reasoning)

    async def _execute(self, episode: Episode, record: TurnRecord, step: Step) -> Step:
        match record.parsed.action:
            case KeywordSearch() as action:
                return await self._search(episode, record, step, action)
            case ReadEntries() as action:
                return await self._read(episode, record, step, action)
            case Finish() as action:
                record.effect = {"kind": "finish"}
                return replace(step, action=canonical(action))
            case Invalid() as invalid:
                return self._refuse(record, step, invalid)
        raise TypeError(f"MM-Doc-R1 has no action {type(record.parsed.action).__name__}")

    async def _search(self, episode: Episode, record: TurnRecord, step: Step, action: KeywordSearch) -> Step:
        began = time.perf_counter()
        hits = await self._hits(episode.world, action.query)
        snippets = await asyncio.to_thread(self._snippets, episode.world, action.query, hits)
        record.seconds["search"] = time.perf_counter() - began
        found = tuple(FoundPage(hit.ref.page, s.text, hit.ref.page in episode.read) for hit, s in snippets)
        for hit, snippet in snippets:
            known = episode.found.get(hit.ref.page)
            if known is None or snippet.words > known.words:
                episode.found[hit.ref.page] = snippet
        record.effect = {"kind": "hits" if hits else "no_hit", "hits": _described_hits(hits, episode)}
        remarks = action.remarks if hits else (self._part("no_hit", episode), *action.remarks)
        return replace(step, action=canonical(action), found=found, remarks=remarks)

    async def _hits(self, world: DocumentWorld, query: str) -> list[Hit]:
        top_k = self._config.search.top_k
        if self._config.search.engine is SearchEngine.DOCUMENT_BM25:
            return await asyncio.to_thread(world.index.search, query, top_k)
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

    async def _read(self, episode: Episode, record: TurnRecord, step: Step, action: ReadEntries) -> Step:
        resolved = resolve(action.entries, episode.world.texts, episode.question, self._config.read)
        if not resolved.entries:
            record.refused = bad_argument("no entry names a page that exists", action.block, action.argument)
            refused = self._refuse(record, step, record.refused)
            return replace(refused, remarks=(*refused.remarks, *resolved.remarks))
        known = [note_key(entry) in episode.notes for entry in resolved.entries]
        began = time.perf_counter()
        notes = await asyncio.gather(*(self._note(episode, entry) for entry in resolved.entries))
        record.seconds["read"] = time.perf_counter() - began
        for entry, note in zip(resolved.entries, notes, strict=True):
            episode.notes.setdefault(note_key(entry), note)
            episode.read.update(dict.fromkeys(entry.pages))
        episode.entries += len(known)
        episode.cached_entries += sum(known)
        described = [
            {"pages": [f"{episode.sample.doc_id}#{page}" for page in entry.pages], "query": entry.query,
             "gold": [page in episode.evidence for page in entry.pages], "cached": cached}
            for entry, cached in zip(resolved.entries, known, strict=True)
        ]  # fmt: skip
        record.effect = {"kind": "read", "entries": described, "remarks": list(resolved.remarks)}
        executed = canonical(replace(action, entries=resolved.entries))
        return replace(step, action=executed, notes=tuple(notes), remarks=resolved.remarks)

    async def _note(self, episode: Episode, entry: ReadEntry) -> ReaderNotes:
        known = episode.notes.get(note_key(entry))
        if known is not None:
            return replace(known, pages=entry.pages)
        text = await self._roles.read(episode.question, entry.query, entry.pages, episode.world)
        return ReaderNotes(entry.pages, entry.query, text)

    def _refuse(self, record: TurnRecord, step: Step, invalid: Invalid) -> Step:
        record.effect = {"kind": "feedback"}
        return replace(step, remarks=(self._part("feedback", self._require(), reason=invalid.detail),))

    def _end(self, episode: Episode) -> EndReason | None:
        records = episode.log.records
        if records[-1].ran(Finish):
            return EndReason.FINISHED
        streak = self._config.max_invalid_in_a_row
        if len(records) >= streak and all(record.invalid for record in records[-streak:]):
            return EndReason.INVALID
        return EndReason.TURN_LIMIT if len(records) >= self._config.max_steps else None

    def _observe(self, episode: Episode) -> Observation:
        budget = self._config.history.prompt_tokens - _TEMPLATE_TOKENS
        note_chars = self._config.history.shortened_note_chars
        texts: list[tuple[Role, str]] = []
        shorter = -1
        for history in histories(episode.steps, note_chars):
            shorter += 1
            texts = [
                (role, self._part(role.value, episode, history=history))
                for role in (Role.SYSTEM, Role.USER)
                if role.value in self._prompt
            ]
            if sum(self._count(text) for _, text in texts) <= budget:
                break
        episode.shortened += shorter > 0
        return Observation(tuple(Message(role, (TextPart(text),)) for role, text in texts), fresh=True)

    async def _settle(self, episode: Episode, reason: EndReason) -> RewardTerms:
        unread = {page: found.text for page, found in episode.found.items() if page not in episode.read}
        pages = {page: episode.world.texts[page] for page in episode.read}
        evidence = Evidence(tuple(episode.notes.values()), pages, unread)
        answer = await self._roles.answer(episode.question, evidence)
        extracted = extracted_answer(await self._roles.extract(episode.question, answer))
        kind = AnswerFormat.of(episode.sample.answer_format)
        right = 0.0 if extracted is None else correctness(episode.answers, extracted, kind)
        read = self._reward.pages(episode.read.keys(), episode.evidence, right)
        total = self._reward.total(pages=read, correctness=right)
        episode.outcome = Outcome(answer, extracted)
        episode.end = reason
        episode.terms = RewardTerms(dict(zip(TERMS, (read, right, total), strict=True)), reward=total)
        return episode.terms

    def _part(self, part: str, episode: Episode, **variables: Any) -> str:
        config, pages = self._config, episode.world.texts
        return self._prompt.render(
            part,
            question=episode.question,
            plan=episode.plan,
            first_page=min(pages),
            last_page=max(pages),
            step=len(episode.steps) + 1,
            steps=config.max_steps,
            top_k=config.search.top_k,
            max_pages=config.read.max_pages,
            max_entries=config.read.max_entries,
            max_keywords=config.search.max_keywords,
            **variables,
        )

    def _running(self) -> Episode:
        episode = self._require()
        if episode.end is not None:
            raise RuntimeError(f"the episode has ended ({episode.end.value})")
        return episode

    def _require(self) -> Episode:
        if self._state is None:
            raise RuntimeError("call begin() or reset() first")
        return self._state


def make_grammar(config: MMDocConfig) -> MMDocGrammar:
    """The grammar that a configuration describes."""
    search = config.search
    return MMDocGrammar(max_keywords=search.max_keywords, max_keyword_chars=search.max_keyword_chars)


def system() -> System:
    """MM-Doc-R1 as a system."""
    from docagent_rl.systems import System

    return System(
        name="mm_doc_r1",
        summary="plan, search a long document by keywords, have pages read, let another write the answer",
        config_type=MMDocConfig,
        env=MMDocEnv,
        make_grammar=make_grammar,
        prompt_spec=MM_DOC_PROMPT,
        default_prompt=lambda config: config.prompt,
        max_turns=lambda config: config.assistant_turns,
        max_images=lambda config: config.max_images,
    )


def _described_hits(hits: list[Hit], episode: Episode) -> list[dict[str, Any]]:
    return [
        {"page": str(hit.ref), "rank": rank, "score": float(hit.score),
         "read": hit.ref.page in episode.read, "gold": hit.ref.page in episode.evidence}
        for rank, hit in enumerate(hits, start=1)
    ]  # fmt: skip


def _described(episode: Episode) -> dict[str, Any]:
    outcome = episode.outcome
    if outcome is None:
        raise RuntimeError("the episode is not settled")
    return {"answer": outcome.answer, "extracted": outcome.extracted, "pages": list(episode.read)}
