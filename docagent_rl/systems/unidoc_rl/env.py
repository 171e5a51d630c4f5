"""The environment of UniDoc-RL (arXiv 2604.14967): search, select, magnify regions, answer."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, cast

from docagent_rl.actions.base import Action, Answer, Box, Crop, Search, Select
from docagent_rl.actions.grammar import Reader, TagGrammar, read_answer, read_search
from docagent_rl.base.errors import UserError
from docagent_rl.base.prompts import PromptSpec
from docagent_rl.documents import PageRef, PageRegion
from docagent_rl.envs.base import (
    EndReason,
    EnvState,
    ImagePart,
    Part,
    RewardTerms,
    TextPart,
    UnknownActionError,
    measured,
)
from docagent_rl.envs.checks import references
from docagent_rl.envs.effects import Candidates, Magnified, NoNewPage, PagesShown, Selected
from docagent_rl.envs.images import Picture
from docagent_rl.envs.outcome import NO_ANSWER, Outcome
from docagent_rl.envs.tool_env import ToolEnv
from docagent_rl.envs.turn_log import LoggedTurn, RefusedError
from docagent_rl.envs.views import View
from docagent_rl.rewards.retrieval import ndcg, recall
from docagent_rl.samples.sample import OTHER_BOXES, Sample, magnified_boxes
from docagent_rl.systems.unidoc_rl.actions import read_boxes, read_index
from docagent_rl.systems.unidoc_rl.config import UniDocConfig
from docagent_rl.systems.unidoc_rl.rewards import (
    TERMS,
    SearchRound,
    Wanted,
    interleave,
    pattern_reward,
)
from docagent_rl.systems.unidoc_rl.stacked_crops import StackedCropsView, region_of, stacked


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a trajectory; replaced as a whole, so that a turn can be undone."""

    rounds: tuple[SearchRound, ...] = ()
    """The searches that returned candidates."""
    pending: tuple[View, ...] = ()
    """The candidates of the last search; an index refers to these."""
    view: View | StackedCropsView | None = None
    """The image that a box refers to; `None` until a candidate of the last search is selected."""
    images: int = 0
    """The number of images in the context."""

    def shown(self, views: Sequence[View | StackedCropsView], **changes: Any) -> Progress:
        """Return the progress after showing these images, with further fields changed."""
        return replace(self, images=self.images + len(views), **changes)


@dataclass(slots=True)
class UniDocState(EnvState):
    """The state of one trajectory."""

    shown_by_turn: ClassVar = ("progress",)
    gold: frozenset[PageRef]
    wanted: Wanted
    """Gold boxes by page."""
    references: tuple[str, ...]
    implicit: bool = False
    """True if the first candidate of a search counts as chosen until the agent selects one."""
    progress: Progress = Progress()
    outcome: Outcome = NO_ANSWER

    def ran(self, kind: type[Action]) -> int:
        """Return the number of turns that executed such an action and whose observation was
        shown.
        """
        return sum(logged.ran(kind) and not logged.dropped for logged in self.log.turns)

    @property
    def selected(self) -> list[PageRef]:
        """The selected page of each search that has one."""
        chosen = [item.chosen(implicit=self.implicit) for item in self.progress.rounds]
        return [cast(PageRef, page) for page in chosen if page is not None]

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the trajectory by name.

        `no_new_page` counts searches that found nothing, `select_fallbacks` selections that took
        the first candidate because the index was invalid, and `boxes` the scored boxes.
        `retrieval_recall` is over all candidates. `judge_score` exists only for judged answers.
        `reward/outcome` is the term, 0 for an unjudged answer, and the validation score of both
        variants.
        """
        rounds = self.progress.rounds
        effects = [logged.effect for logged in self.log.turns if not logged.dropped]
        fallbacks = sum(isinstance(effect, Selected) and effect.fallback for effect in effects)
        shown = interleave(rounds)
        return {
            **self.common_metrics(TERMS),
            "image_limit": float(self.end is EndReason.IMAGE_LIMIT),
            "searches": float(self.ran(Search)),
            "no_new_page": float(sum(isinstance(effect, NoNewPage) for effect in effects)),
            "selections": float(self.ran(Select)),
            "select_fallbacks": float(fallbacks),
            "crops": float(self.ran(Crop)),
            "boxes": float(sum(len(item.boxes) for item in rounds)),
            "informed_turns": float(sum(bool(logged.parsed.notes) for logged in self.log.turns)),
            "images": float(self.progress.images),
            "pages_seen": float(len(shown)),
            **measured(
                {
                    "retrieval_recall": recall(shown, self.gold),
                    "recall_first": recall([item.candidates[0] for item in rounds], self.gold),
                    "recall_selected": recall(self.selected, self.gold),
                    "retrieval_ndcg": ndcg(shown, self.gold) if self.gold else None,
                    "judge_score": self.outcome.score,
                }
            ),
        }


def gold_regions(sample: Sample) -> Wanted:
    """Return the gold boxes of a question by page, in all documents, as fractions of the raw page.

    A page with boxes must be magnified, unless its flag (`extra.crop_required`, or
    `extra.other_crop_required` for further documents) says otherwise; such a page has no entry,
    just like one without boxes. Raises a `UserError` for boxes outside their page and for malformed
    boxes and flags.
    """
    regions: dict[Hashable, tuple[Box, ...]] = {}
    for (doc_id, page), boxes in magnified_boxes(sample).items():
        ref = PageRef(doc_id, page)
        try:
            regions[ref] = tuple(
                PageRegion(ref, (box[0], box[1], box[2], box[3])).box for box in boxes
            )
        except UserError as error:
            field = "evidence_boxes" if doc_id == sample.doc_id else f"extra.{OTHER_BOXES}"
            raise UserError(f"question {sample.question_id!r}, field {field!r}: {error}") from error
    return regions


class UniDocEnv(ToolEnv[UniDocConfig, UniDocState]):
    """One trajectory of UniDoc-RL.

    A search shows up to three candidates, labelled with their index from 0. A selection shows one
    of them again. A box action shows regions of the selected page, cropped from the raw page and
    stacked. A box refers to the last image shown, a page or a stack. All observations are user
    messages that begin with text.

    The reward is given in the last turn; its terms are `rewards.TERMS`. A turn whose observation
    was dropped because it did not fit has no effect: its candidates, selection and boxes do not
    count.

    Validation judges every answer, may pad boxes differently, and plays questions without gold
    pages.
    """

    title = "UniDoc-RL"
    spec = PromptSpec(
        required=frozenset(
            {"user", "feedback", "candidates", "label", "page", "crop", "no_new_page"}
        ),
        optional=frozenset({"system"}),
        variables=frozenset(
            {"question", "turns", "select", "crop", "candidates", "boxes", "frame"}
            | {"index", "reason", "about_boxes"}
        ),
        shown=frozenset({"question"}),
    )

    @staticmethod
    def make_grammar(config: UniDocConfig) -> TagGrammar:
        """Return the grammar: thoughts, notes, then one action.

        Thoughts are in `<think>` and notes in `<information>`. The actions are
        `<search>query</search>`, `<select>index</select>`, `<bbox>[[x1, y1, x2, y2], ...]</bbox>`
        and `<answer>text</answer>`. A note is blanked out like a thought, but only if it is closed;
        `ParsedTurn.notes` contains those that are not blank. The tag of a disabled action is not
        recognised.
        """
        readers: dict[str, Reader] = {"search": read_search}
        if config.grammar.select:
            readers["select"] = partial(read_index, fallback=config.selection.fallback)
        if config.grammar.crop:
            readers["bbox"] = partial(read_boxes, most=config.crop.max_boxes)
        return TagGrammar({**readers, "answer": read_answer}, notes=("information",))

    def variables(self, state: UniDocState) -> dict[str, object]:
        """Return the variables that all parts of the prompt may use."""
        config = self._config
        return {
            "turns": config.assistant_turns,
            "select": config.grammar.select,
            "crop": config.grammar.crop,
            "candidates": config.search.candidates,
            "boxes": config.crop.max_boxes,
            "frame": config.coords.frame.value,
        }

    def new_state(self, sample: Sample) -> UniDocState:
        """Return the state before the first turn (see `DocEnv.new_state`)."""
        gold = self.gold_pages(sample, allow_empty=self._config.allow_empty_gold)
        implicit = self._config.selection.implicit
        return UniDocState(sample, gold, gold_regions(sample), references(sample), implicit)

    def limit(self, state: UniDocState, logged: LoggedTurn) -> EndReason | None:
        """Return why only an answer is executed: the last turn, or too many images."""
        too_many = state.progress.images > self._config.image_limit
        return super().limit(state, logged) or (EndReason.IMAGE_LIMIT if too_many else None)

    async def act(self, state: UniDocState, logged: LoggedTurn) -> Sequence[Part]:
        """Search, select or magnify."""
        match logged.action:
            case Search() as search:
                return await self._search(state, logged, search)
            case Select() as select:
                return self._select(state, logged, select)
            case Crop() as crop:
                return self._crop(state, logged, crop)
        raise UnknownActionError(self.title, logged.action)

    def correction(self, logged: LoggedTurn, text: str) -> TextPart:
        """See `ToolEnv`; if the turn drew boxes, the text also states their format."""
        reason = self.feedback(logged)
        block = logged.action.block
        about_boxes = block is not None and text.startswith("<bbox>", block[0])
        return self.part("feedback", reason=reason, about_boxes=about_boxes)

    async def score(self, state: UniDocState, logged: LoggedTurn, action: Answer) -> Outcome:
        """Return the judge's score.

        With the gate, the judge is asked only if the format term is above 0, except in validation.
        """
        fmt = self._format(state, EndReason.ANSWERED)
        rewarded = self._config.reward.formula.opens({"format": fmt})
        return await self.judge(logged, state.references, action.text, rewarded=rewarded)

    def final_terms(self, end: EndReason, outcome: Outcome) -> RewardTerms:
        """End the trajectory and return its reward."""
        state = self.running
        state.outcome = outcome
        values = self._config.reward.terms(
            state.progress.rounds,
            state.gold,
            state.wanted,
            fmt=self._format(state, end),
            outcome=outcome.term,
            implicit=state.implicit,
        )
        return state.finish(end, values)

    async def _search(self, state: UniDocState, logged: LoggedTurn, action: Search) -> list[Part]:
        search = self._config.search
        views = await self.search_pages(
            logged,
            action.query,
            scope=search.scope,
            top_k=search.top_k,
            most=search.candidates,
            display=self._config.display,
            shown=frozenset(state.selected),
            gold=state.gold,
        )
        if not views:
            return [self.part("no_new_page")]
        # if the agent does not select, the pages are shown to be read, not as candidates
        if self._config.grammar.select and isinstance(logged.effect, PagesShown):
            logged.effect = Candidates(logged.effect.pages, logged.effect.hits)
        return self._show_candidates(state, tuple(views))

    def _show_candidates(self, state: UniDocState, views: tuple[View, ...]) -> list[Part]:
        progress = state.progress
        pages = tuple(view.image.page for view in views)
        if not self._config.grammar.select:
            # the only page is selected as soon as it is shown
            rounds = (*progress.rounds, SearchRound(pages, selected=pages[0]))
            state.progress = progress.shown(views, rounds=rounds, pending=(), view=views[0])
            return self._picture("page", views[0].image)
        rounds = (*progress.rounds, SearchRound(pages))
        state.progress = progress.shown(views, rounds=rounds, pending=views, view=None)
        parts: list[Part] = []
        lead = self.text("candidates")
        for index, view in enumerate(views):
            label = self.text("label", index=index)
            parts += [TextPart(f"{lead}\n{label} "), ImagePart(view.image)]
            lead = ""
        return parts

    def _select(self, state: UniDocState, logged: LoggedTurn, action: Select) -> list[Part]:
        progress = state.progress
        if not progress.pending:
            raise RefusedError("no candidates were shown yet")
        index = action.choices[0] - 1 if action.choices else None
        fallback = index is None or index >= len(progress.pending)
        if fallback and not self._config.selection.fallback:
            raise RefusedError(
                f"no candidate has that index, the last is {len(progress.pending) - 1}"
            )
        index = 0 if index is None or fallback else index
        view = replace(progress.pending[index], turn=logged.turn)
        page = view.image.page
        # keep boxes drawn before: a second selection must not erase the result of the first one
        latest = replace(progress.rounds[-1], selected=page)
        state.progress = progress.shown([view], rounds=(*progress.rounds[:-1], latest), view=view)
        logged.image_tokens = view.tokens
        logged.effect = Selected(replace(view.shown(), gold=page in state.gold), index, fallback)
        return self._picture("page", view.image)

    def _crop(self, state: UniDocState, logged: LoggedTurn, action: Crop) -> list[Part]:
        progress = state.progress
        coords = self._config.coords
        display = self._config.display
        if progress.view is None:
            searched = "no page was selected since the last search"
            raise RefusedError(searched if progress.rounds else "no page was shown yet")
        pad = self._config.crop.padding(validate=self._validate)
        view = stacked(progress.view, action.boxes, coords, display, pad=pad, turn=logged.turn)
        rounds = progress.rounds
        drawn = ()
        # only the first boxes of a search count, and only if they were drawn on a page, not on a
        # crop
        if isinstance(progress.view, View) and not rounds[-1].boxes:
            drawn = tuple(region_of(progress.view, box, coords.frame) for box in action.boxes)
            rounds = (*rounds[:-1], rounds[-1].drawn(drawn))
        state.progress = progress.shown([view], rounds=rounds, view=view)
        logged.image_tokens = view.tokens
        logged.effect = Magnified(view.shown(), own={"scored": [list(box) for box in drawn]})
        return self._picture("crop", view.image)

    def _picture(self, part: str, image: Picture) -> list[Part]:
        return [TextPart(self.text(part) + "\n"), ImagePart(image)]

    def _format(self, state: UniDocState, end: EndReason) -> float:
        turns = state.log.turns
        return pattern_reward(
            self._config.format.mode,
            faults=sum(logged.invalid is not None for logged in turns),
            searched=state.ran(Search) > 0,
            selected=not self._config.grammar.select or state.ran(Select) > 0,
            noted=any(logged.parsed.notes for logged in turns),
            finished=end is EndReason.ANSWERED,
        )
