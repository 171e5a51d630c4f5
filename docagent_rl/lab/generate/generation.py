"""Questions about documents, written and checked by models."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents.store import DocumentStore
from docagent_rl.endpoints.chat_reply import RequestRefusedError
from docagent_rl.endpoints.remote_model import RemoteModel
from docagent_rl.endpoints.retrying import run_jobs
from docagent_rl.lab.generate.config import EvidenceKind, GenerateConfig, JudgedBy
from docagent_rl.lab.generate.draft import (
    DroppedQuestion,
    DropStage,
    QuestionDraft,
    build_sample,
    draft_of,
    find_repeats,
)
from docagent_rl.lab.generate.examiner import Examiner
from docagent_rl.lab.generate.funnel import GenerationFunnel, text_digest
from docagent_rl.lab.generate.pages import PageViews
from docagent_rl.lab.generate.plan import Gap, Slot, plan_document
from docagent_rl.lab.generate.replies import (
    NoReplyError,
    Prompts,
    ShapeReader,
    UnreadableError,
    Written,
    conversation,
    digest_of_prompts,
    fill,
)
from docagent_rl.rewards.judge_client import RemoteJudge
from docagent_rl.samples.sample import Sample


class Generation:
    """One run. Its output depends only on documents, configuration and replies, not on the order of
    the latter.

    `model` writes the questions and answers them in the checks; `judge` compares answers, by
    default the same model. `doc_ids` determine the order of the output; questions that repeat one
    of `known` are dropped.

    Raises:
        UserError: a document is not in the store, or nothing can be asked about any of them.
    """

    def __init__(
        self,
        store: DocumentStore,
        doc_ids: Sequence[str],
        config: GenerateConfig,
        prompts: Prompts,
        model: RemoteModel,
        *,
        judge: RemoteModel | None = None,
        known: Sequence[Sample] = (),
    ) -> None:
        self.config = config
        self.model = model
        self.judge = (judge or model) if config.judge is JudgedBy.MODEL else None
        self._judge_name = self.judge.model if self.judge else None
        self._prompts = prompts
        self._known = known
        self.views = PageViews(store, config, prompts)
        self.slots: list[Slot] = []
        self.gaps: list[Gap] = []
        for doc_id in doc_ids:
            slots, gaps = plan_document(self.views.of(doc_id), config)
            self.slots += slots
            self.gaps += gaps
        if not self.slots:
            why = "; ".join(sorted({gap.why for gap in self.gaps})) or "no kind asks for questions"
            raise UserError(f"there is nothing to ask about in {len(doc_ids)} documents: {why}")
        compared = RemoteJudge(self.judge, prompts["judge"]) if self.judge else None
        # two readers, since each detects on its own that the server answers nothing
        self._reader, examining = (ShapeReader(model, config.json_schema) for _ in range(2))
        self._examiner = Examiner(examining, compared, self.views, prompts, config.filters)
        self._results: dict[str, Sequence[tuple[QuestionDraft | None, DroppedQuestion | None]]] = {}
        """Drafts by request, with the reason if they were dropped; without a draft, the reason why
        the request was.
        """

    @property
    def undone(self) -> int:
        """Number of requests for questions that are not finished."""
        return len(self.slots) - len(self._results)

    @property
    def digest(self) -> str:
        """SHA-256 of everything that was asked for: with equal replies it gives equal files."""
        asked = {
            "config": self.config.model_dump(mode="json", exclude={"prompts"}),
            "prompts": digest_of_prompts(self._prompts),
            "models": [self.model.model, self._judge_name],
            "slots": [[slot.slot_id, slot.pages] for slot in self.slots],
            "documents": {slot.doc_id: self.views.of(slot.doc_id).content for slot in self.slots},
            "known": [sample.question for sample in self._known],
        }
        return text_digest(json.dumps(asked, sort_keys=True))

    def messages(self, slot: Slot) -> list[dict[str, Any]]:
        """Return the request for the questions of a slot. Blocks."""
        prompt = self._prompts["write"]
        words = fill(
            prompt,
            slot.kind.value,
            questions=slot.questions,
            pages=list(slot.pages),
            count=self.views.of(slot.doc_id).count,
            level=prompt.render(slot.difficulty.value),
        )
        return conversation(prompt, self.views.content(words, slot.doc_id, slot.pages))

    def is_known(self, slot: Slot) -> bool:
        """Return whether the reply for a slot is cached. Blocks."""
        return self._reader.is_known(
            self.messages(slot), Written, *self.config.sampling(slot.sample)
        )

    async def run(self, progress: Callable[[], None] | None = None) -> None:
        """Request and check everything that is not finished; `progress` is called after each
        request for questions.

        Raises:
            BudgetError: the budget is spent.
            InfrastructureError: an endpoint fails for many requests, or refuses them; the message
                names document and pages.
        """
        waiting = (slot for slot in self.slots if slot.slot_id not in self._results)
        try:
            await run_jobs(
                waiting, self._slot, at_once=self.model.endpoint.concurrency, done=progress
            )
        except InfrastructureError as error:
            if self.config.view.pictures and isinstance(error.__cause__, RequestRefusedError):
                raise InfrastructureError(
                    f"{error}; if the model takes no pictures, use --view text"
                ) from error
            raise
        finally:
            await self.model.aclose()

    def outcome(self) -> tuple[list[Sample], GenerationFunnel]:
        """Return the questions that passed, in the order of the plan, and an account of the
        others.
        """
        results = [each for slot in self.slots for each in self._results.get(slot.slot_id, ())]
        written = [draft for draft, _ in results if draft is not None]
        passed = [draft for draft, dropped in results if draft is not None and dropped is None]
        dropped = [dropped for _, dropped in results if dropped is not None]
        samples = [self._sample(draft) for draft in passed]
        repeats = find_repeats(samples, self._known)
        dropped += [
            DroppedQuestion(
                passed[place].slot, DropStage.DUPLICATE, f"repeats: {question}", passed[place]
            )
            for place, question in sorted(repeats.items())
        ]
        kept = [place for place in range(len(passed)) if place not in repeats]
        funnel = GenerationFunnel(
            self.slots, written, dropped, [passed[place] for place in kept], self.gaps
        )
        return [samples[place] for place in kept], funnel

    async def _slot(self, slot: Slot) -> None:
        try:
            written = await self._written(slot)
            if isinstance(written, DroppedQuestion):
                self._results[slot.slot_id] = [(None, written)]
            else:
                examined = [(draft, await self._examiner.examine(draft)) for draft in written]
                self._results[slot.slot_id] = examined
        except InfrastructureError as error:
            raise InfrastructureError(f"{slot.where}: {error}") from error.__cause__

    async def _written(self, slot: Slot) -> list[QuestionDraft] | DroppedQuestion:
        """Return the questions of a slot, before any check."""
        prompt = self._prompts["write"]
        messages = await asyncio.to_thread(self.messages, slot)
        try:
            sampling = self.config.sampling(slot.sample)
            written = await self._reader.read(prompt, messages, Written, *sampling)
        except NoReplyError as error:
            return DroppedQuestion(slot, DropStage.NO_REPLY, str(error))
        except UnreadableError as error:
            return DroppedQuestion(slot, DropStage.UNREADABLE, str(error))
        if not written.questions:
            return DroppedQuestion(slot, DropStage.DECLINED, "the model found nothing to ask")
        chosen = written.questions[: slot.questions]
        return [draft_of(slot, index, question) for index, question in enumerate(chosen)]

    def _sample(self, draft: QuestionDraft) -> Sample:
        slot = draft.slot
        config = self.config
        provenance = {
            "model": self.model.model,
            "judge": self._judge_name,
            "prompt": digest_of_prompts(self._prompts),
            "view": config.view.value,
            "shown_pages": list(slot.pages),
            "seed": config.seed,
        }
        return build_sample(
            draft.question_id,
            self.views.of(slot.doc_id).document,
            draft.question,
            draft.answer,
            draft.pages,
            slot.kind,
            source=None if slot.kind is EvidenceKind.UNANSWERABLE else slot.kind.source,
            difficulty=slot.difficulty,
            provenance=provenance,
            dataset=config.dataset,
            split=config.split,
        )
