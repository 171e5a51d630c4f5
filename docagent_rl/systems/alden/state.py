"""The state of an ALDEN trajectory, its numbers, and the results of its calls: pages as lines."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from docagent_rl.actions.base import Fetch, Search
from docagent_rl.base.errors import UserError
from docagent_rl.documents import DocumentStore, PageRef
from docagent_rl.envs.base import EnvState, ImagePart, Part, RewardTerms, TextPart
from docagent_rl.envs.checks import checked_gold, references
from docagent_rl.envs.services import EnvServices
from docagent_rl.envs.tool_env import Say
from docagent_rl.envs.turn_log import LoggedTurn
from docagent_rl.envs.views import View, page_view
from docagent_rl.retrieval import Hit
from docagent_rl.retrieval.tokens import UNSPACED
from docagent_rl.rewards.retrieval import navigation
from docagent_rl.samples.sample import Sample
from docagent_rl.systems.alden.actions import AldenTurn, PageForm
from docagent_rl.systems.alden.config import AldenConfig, RepeatPage
from docagent_rl.systems.alden.rewards import AnswerMetric, as_refusal, is_refusal

AldenLoggedTurn = LoggedTurn[AldenTurn]

PageKey = tuple[int, PageForm]
"""A page by its 1-based number, as an image or as text."""

_FAILED_FETCHES = frozenset({"malformed_fetch", "no_such_page", "no_room"})


@dataclass(slots=True)
class AldenState(EnvState):
    """The state of one trajectory; a refusal among its references is in ALDEN's own words."""

    num_pages: int
    gold: frozenset[int]
    references: tuple[str, ...]
    shown: list[PageKey] = field(default_factory=list)
    """Pages shown, in order, each once a form."""
    seen: list[PageKey] = field(default_factory=list)
    """Those of them that later rewards know of (H)."""
    images: int = 0
    image_tokens: int = 0
    queries: list[tuple[str, ...]] = field(default_factory=list)
    """Words of the earlier queries."""
    rewards: list[RewardTerms] = field(default_factory=list)
    """The terms of every turn, as far as it is rewarded."""
    _before: tuple[int, int, int, int] = (0, 0, 0, 0)

    @property
    def answerable(self) -> bool:
        """Some reference is an answer."""
        return not all(map(is_refusal, self.references))

    def open_turn(self, logged: LoggedTurn) -> None:
        """Begin a turn; what it shows can be taken back until the next one."""
        self._before = (len(self.shown), len(self.seen), self.images, self.image_tokens)
        self.log.turns.append(logged)

    def show(self, keys: Iterable[PageKey], *, remember: bool) -> None:
        """Note pages as shown, and for later rewards as seen."""
        for key in keys:
            if key not in self.shown:
                self.shown.append(key)
            if remember and key not in self.seen:
                self.seen.append(key)

    def take_back(self) -> None:
        """Undo what the last turn showed."""
        shown, seen, self.images, self.image_tokens = self._before
        del self.shown[shown:], self.seen[seen:]
        self.log.turns[-1].dropped = True

    def metrics(self, terms: Iterable[str]) -> dict[str, float]:
        """Return numbers of the trajectory by name; `reward/*` are sums over the turns.

        A malformed turn counts as invalid even when its call was executed. Repeated calls showed nothing but
        what was shown before; `pages_seen` is #UP. `retrieval_*` are of questions that have gold pages,
        `refusal_accuracy` of unanswerable ones; `answer_*` are there whichever of them is rewarded.
        """
        numbers, turns = self.common_metrics(()), self.log.turns
        effects = [logged.effect for logged in turns]
        calls = self.log.ran(Search) + self.log.ran(Fetch)
        repeated = sum(bool(effect.get("repeated")) for effect in effects)
        faults = sum(isinstance(r.parsed, AldenTurn) and r.parsed.fault is not None for r in turns)
        invalid = numbers["invalid_actions"] + faults
        pages = {page for page, _ in self.shown}
        score = navigation(pages, self.gold)
        answer = effects[-1] if effects and effects[-1].get("kind") == "answer" else {}
        return {
            **{f"reward/{name}": sum(t.values.get(name, 0.0) for t in self.rewards) + 0.0 for name in terms},
            **numbers,
            "invalid_actions": invalid,
            "invalid_action_rate": invalid / numbers["turns"] if turns else 0.0,
            "malformed_calls": float(faults),
            "searches": float(self.log.ran(Search)),
            "fetches": float(self.log.ran(Fetch)),
            "failed_fetches": float(sum(effect.get("kind") in _FAILED_FETCHES for effect in effects)),
            "repeated_calls": float(repeated),
            "repeated_call_rate": repeated / calls if calls else 0.0,
            "pages_seen": float(len(pages)),
            "has_gold": float(bool(self.gold)),
            **({f"retrieval_{name}": value for name, value in asdict(score).items()} if score else {}),
            "unanswerable": float(not self.answerable),
            "refused": float(answer.get("refused", False)),
            **({} if self.answerable else {"refusal_accuracy": float(answer.get("refused", False))}),
            **{f"answer_{metric.value}": float(answer.get(metric.value, 0.0)) for metric in AnswerMetric},
        }


def new_state(sample: Sample, store: DocumentStore, *, allow_empty_gold: bool) -> AldenState:
    """Return the state of a trajectory before its first turn.

    Raises a `UserError` for a question that cannot be played: its document or a gold page is missing, a gold
    page lies in another document, nothing is gold, or there is no reference.
    """
    allowed = allow_empty_gold or sample.answerable is False
    gold = checked_gold(sample, store, allow_empty=allowed)
    if foreign := sorted(ref for ref in gold if ref.doc_id != sample.doc_id):
        raise UserError(
            f"question {sample.question_id!r}: gold page {foreign[0]} lies outside its document "
            f"{sample.doc_id!r}, and ALDEN navigates one document: drop the question"
        )
    return AldenState(
        sample,
        store.document(sample.doc_id).num_pages,
        frozenset(ref.page for ref in gold),
        tuple(map(as_refusal, references(sample))),
    )


Line = str | ImagePart
"""A line of a result: text, or an image."""

_LETTERS_A_TOKEN = 4
# digits, characters of scripts without spaces and marks one by one; runs of letters; runs of line breaks
_PIECE = re.compile(rf"[{UNSPACED}]|\d|[^\W\d_{UNSPACED}]+|\n+|[^\w\s]|_")


@dataclass(slots=True)
class Result:
    """The result of one call: lines, the pages among them, also those of which a line only reminds.

    `tokens` are visual ones; `full`: an image found no room.
    """

    lines: list[Line] = field(default_factory=list)
    keys: list[PageKey] = field(default_factory=list)
    described: list[dict[str, Any]] = field(default_factory=list)
    tokens: int = 0
    full: bool = False

    @property
    def pages(self) -> set[int]:
        """The pages, in either form."""
        return {page for page, _ in self.keys}


@dataclass(frozen=True, slots=True)
class ResultBuilder:
    """Finds pages and puts them into results. Files are read in threads."""

    config: AldenConfig
    services: EnvServices
    say: Say

    async def find(self, doc_id: str, query: str) -> tuple[list[Hit], list[Hit]]:
        """Return the best image pages and, with two modalities, the best text pages of a document."""
        search, services = self.config.search, self.services
        texts: list[Hit] = []
        if self.config.two_rankings:
            images, texts = await asyncio.gather(
                *(
                    retriever.search(query, doc_id=doc_id, top_k=search.top_k)
                    for retriever in (services.retriever, services.second())
                )
            )
        else:
            images = await services.retriever.search(query, doc_id=doc_id, top_k=search.top_k)
            texts = images if self.config.hybrid else []
        return images[: search.pages_per_search], texts[: search.pages_per_search]

    async def searched(self, state: AldenState, query: str) -> Result:
        """Search and show what was found."""
        images, texts = await self.find(state.sample.doc_id, query)
        result = Result()
        if images and self.config.hybrid:
            result.lines.append(self.say("image_list"))
        await self._add_images(result, state, images, label=True)
        if texts:
            result.lines.append(self.say("text_list"))
            await self._add_texts(result, state, texts, label=True, cut=True)
        if not result.lines:
            result.lines.append(self.say("no_page"))
        return result

    async def fetched(self, state: AldenState, page: int, form: PageForm) -> Result:
        """Show one page, which exists."""
        hits, label = [Hit(PageRef(state.sample.doc_id, page), 0.0)], self.config.fetch_label
        result = Result()
        if form is PageForm.IMAGE:
            await self._add_images(result, state, hits, label=label)
        else:
            await self._add_texts(result, state, hits, label=label, cut=self.config.cut_fetched_text)
        return result

    async def _add_images(
        self, result: Result, state: AldenState, hits: Sequence[Hit], *, label: bool
    ) -> None:
        budget = self.config.image_budget
        views = await asyncio.to_thread(self._views, hits, len(state.log.turns))
        for rank, (hit, view) in enumerate(zip(hits, views, strict=True), start=1):
            if self._reminded(result, state, (hit.ref.page, PageForm.IMAGE)):
                continue
            tokens = state.image_tokens + view.tokens
            if state.images >= budget.images or (
                budget.image_tokens is not None and tokens > budget.image_tokens
            ):
                result.full = True
                result.lines.append(self.say("no_room"))
                return
            state.images, state.image_tokens = state.images + 1, tokens
            result.tokens += view.tokens
            self._add(result, state, hit, PageForm.IMAGE, rank, label=label, line=ImagePart(view.image))
            result.described[-1] |= view.to_dict()

    async def _add_texts(
        self, result: Result, state: AldenState, hits: Sequence[Hit], *, label: bool, cut: bool
    ) -> None:
        texts = await asyncio.to_thread(self._read, hits, cut=cut)
        for rank, (hit, text) in enumerate(zip(hits, texts, strict=True), start=1):
            if not self._reminded(result, state, (hit.ref.page, PageForm.TEXT)):
                line = text or self.say("no_text")
                self._add(result, state, hit, PageForm.TEXT, rank, label=label, line=line)
                result.described[-1]["characters"] = len(text)

    def _add(
        self,
        result: Result,
        state: AldenState,
        hit: Hit,
        form: PageForm,
        rank: int,
        *,
        label: bool,
        line: Line,
    ) -> None:
        page = hit.ref.page
        result.keys.append((page, form))
        result.lines += [self.say("page_label", page=page)] if label else []
        result.lines.append(line)
        result.described.append(
            {
                "page": str(hit.ref),
                "form": form.value,
                "rank": rank,
                "score": float(hit.score),
                "gold": page in state.gold,
            }
        )

    def _reminded(self, result: Result, state: AldenState, key: PageKey) -> bool:
        if self.config.repeat_page is RepeatPage.RESEND or key not in state.shown:
            return False
        result.keys.append(key)
        result.lines.append(self.say("reminder", page=key[0]))
        return True

    def _views(self, hits: Sequence[Hit], turn: int) -> list[View]:
        return [page_view(self.services.store.page(hit.ref), self.config.display, turn) for hit in hits]

    def _read(self, hits: Sequence[Hit], *, cut: bool) -> list[str]:
        texts = [self.services.store.page(hit.ref).text().strip() for hit in hits]
        # a page must not close the result that it stands in
        texts = [text.replace("</result>", "< /result>") for text in texts]
        return [cut_text(text, self.config.ocr_tokens) if cut else text for text in texts]


def parts(lines: Iterable[Line]) -> tuple[Part, ...]:
    """Return lines as parts of a message: texts joined by line breaks, images between them."""
    found: list[Part] = []
    for line in lines:
        last = found[-1] if found else None
        if isinstance(line, ImagePart):
            if isinstance(last, TextPart):
                found[-1] = TextPart(last.text + "\n")
            found.append(line)
        elif isinstance(last, TextPart):
            found[-1] = TextPart(f"{last.text}\n{line}")
        else:
            found.append(TextPart(f"\n{line}" if last else line))
    return tuple(found)


def cut_text(text: str, max_tokens: int) -> str:
    """Return the beginning of a text, at most so many estimated tokens long, in whole words.

    A token is every digit, mark and character of a script without spaces, every four letters of a word begun,
    and a run of line breaks.
    """
    used = 0
    for piece in _PIECE.finditer(text):
        letters = len(piece[0])
        used += -(-letters // _LETTERS_A_TOKEN) if piece[0][0].isalpha() else 1
        if used > max_tokens:
            return text[: piece.start()].rstrip()
    return text
