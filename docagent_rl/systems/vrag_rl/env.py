"""The environment of VRAG-RL (arXiv 2505.22019): search a corpus of page images, zoom, answer."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from docagent_rl.actions.base import Answer, Crop, Search
from docagent_rl.actions.grammar import Reader, TagGrammar, read_answer, read_box, read_search
from docagent_rl.base.prompts import PromptSpec
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import (
    EndReason,
    EnvState,
    ImagePart,
    Part,
    RewardTerms,
    UnknownActionError,
    measured,
)
from docagent_rl.envs.checks import references
from docagent_rl.envs.effects import Magnified, NoNewPage
from docagent_rl.envs.outcome import NO_ANSWER, Outcome
from docagent_rl.envs.tool_env import ToolEnv
from docagent_rl.envs.turn_log import LoggedTurn, RefusedError
from docagent_rl.envs.views import View, crop_view
from docagent_rl.rewards.retrieval import ndcg, recall
from docagent_rl.samples.sample import Sample
from docagent_rl.systems.vrag_rl.config import VragConfig
from docagent_rl.systems.vrag_rl.rewards import TERMS, format_reward


@dataclass(slots=True)
class VragState(EnvState):
    """The state of one trajectory."""

    shown_by_turn: ClassVar = ("shown", "views")
    gold: frozenset[PageRef]
    references: tuple[str, ...]
    shown: list[PageRef] = field(default_factory=list)
    """Distinct pages that searches showed, in order; the retrieval term is computed from them."""
    views: list[View] = field(default_factory=list)
    """All images shown; a box refers to the last one."""
    outcome: Outcome = NO_ANSWER

    @property
    def searched(self) -> bool:
        """Return whether a search was executed."""
        return self.log.ran(Search) > 0

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the trajectory by name.

        `retrieval_*` exist only for questions with gold pages. `invalid_rate_paper` also counts an
        answer before any search as invalid, as the paper's analysis does. `judge_score` exists only
        for judged answers. `reward/outcome` is the term, and the validation score of both variants;
        with the gate it is 0 without a search, whatever the judge's verdict.
        """
        numbers = self.common_metrics(TERMS)
        faults = numbers["invalid_actions"] + (self.end is EndReason.ANSWERED and not self.searched)
        return {
            **numbers,
            "invalid_rate_paper": faults / numbers["turns"] if numbers["turns"] else 0.0,
            "searches": float(self.log.ran(Search)),
            "no_new_page": float(self.log.effects(NoNewPage)),
            "crops": float(len(self.views) - len(self.shown)),
            "pages_seen": float(len(self.shown)),
            **measured(
                {
                    "retrieval_recall": recall(self.shown, self.gold),
                    "retrieval_ndcg": ndcg(self.shown, self.gold) if self.gold else None,
                    "judge_score": self.outcome.score,
                }
            ),
        }


class VragEnv(ToolEnv[VragConfig, VragState]):
    """One trajectory of VRAG-RL.

    Observations are user messages with nothing but the images of a search or zoom, or with a text
    if there are none. The reward is given in the last turn; its terms are `rewards.TERMS`.
    Validation judges every answer, may pad boxes differently, and plays questions without gold
    pages.
    """

    title = "VRAG-RL"
    spec = PromptSpec(
        required=frozenset({"user", "feedback", "no_new_page", "final_turn"}),
        optional=frozenset({"system"}),
        variables=frozenset({"question", "turns", "crop", "frame", "pages", "reason"}),
        shown=frozenset({"question"}),
    )

    @staticmethod
    def make_grammar(config: VragConfig) -> TagGrammar:
        """Return the grammar: thoughts in `<think>`, then `<search>`, `<bbox>` or `<answer>`.

        With `region_alias`, `<region>` is accepted for `<bbox>`: the paper's body and Algorithm 1
        use that name, its printed prompt and the released code use `<bbox>`. Without `crop`,
        neither tag is recognised.
        """
        boxes = ("bbox", "region") if config.grammar.region_alias else ("bbox",)
        crops: dict[str, Reader] = dict.fromkeys(boxes, read_box) if config.grammar.crop else {}
        return TagGrammar({"search": read_search, **crops, "answer": read_answer})

    def variables(self, state: VragState) -> dict[str, object]:
        """Return the variables that all parts of the prompt may use."""
        return {
            "turns": self._config.assistant_turns,
            "crop": self._config.grammar.crop,
            "frame": self._config.coords.frame.value,
            "pages": self._config.search.pages_per_search,
        }

    def new_state(self, sample: Sample) -> VragState:
        """Return the state before the first turn (see `DocEnv.new_state`)."""
        return VragState(
            sample,
            self.gold_pages(sample, allow_empty=self._config.allow_empty_gold),
            references(sample),
        )

    async def execute(self, state: VragState, logged: LoggedTurn, text: str) -> Sequence[Part]:
        """See `ToolEnv`; a notice may be added before the last turn."""
        last = self._config.final_turn.notice and logged.turn == self._config.assistant_turns - 1
        notice = [self.part("final_turn")] if last else []
        return [*await super().execute(state, logged, text), *notice]

    async def act(self, state: VragState, logged: LoggedTurn) -> Sequence[Part]:
        """Search or zoom."""
        match logged.action:
            case Search() as search:
                return await self._search(state, logged, search)
            case Crop() as crop:
                return self._crop(state, logged, crop)
        raise UnknownActionError(self.title, logged.action)

    async def score(self, state: VragState, logged: LoggedTurn, action: Answer) -> Outcome:
        """Return the judge's score.

        With the gate, the judge is asked only after a search, except in validation.
        """
        fmt = format_reward(searched=state.searched, answered=True)
        rewarded = self._config.reward.formula.opens({"format": fmt})
        return await self.judge(logged, state.references, action.text, rewarded=rewarded)

    def final_terms(self, end: EndReason, outcome: Outcome) -> RewardTerms:
        """End the trajectory and return its reward (Eq. 11 and 12)."""
        state = self.running
        formula = self._config.reward.formula
        state.outcome = outcome
        form = format_reward(searched=state.searched, answered=end is EndReason.ANSWERED)
        values = {
            "retrieval_ndcg": ndcg(state.shown, state.gold),
            "outcome": outcome.term if formula.opens({"format": form}) else 0.0,
            "format": form,
        }
        return state.finish(end, {**values, "total": formula.total(values)})

    async def _search(self, state: VragState, logged: LoggedTurn, action: Search) -> list[Part]:
        search = self._config.search
        views = await self.search_pages(
            logged,
            action.query,
            scope=search.scope,
            top_k=search.top_k,
            most=search.pages_per_search,
            display=self._config.display,
            shown=state.shown,
            gold=state.gold,
        )
        state.shown += [view.image.page for view in views]
        state.views += views
        return [ImagePart(view.image) for view in views] or [self.part("no_new_page")]

    def _crop(self, state: VragState, logged: LoggedTurn, action: Crop) -> list[Part]:
        if not state.views:
            raise RefusedError("no image was shown yet")
        coords = self._config.coords
        view = crop_view(
            state.views[-1],
            action.boxes[0],
            self._config.display,
            logged.turn,
            frame=coords.frame,
            rounding=coords.rounding,
            pad=self._config.crop.padding(validate=self._validate),
        )
        logged.effect = Magnified(view.shown())
        logged.image_tokens = view.tokens
        state.views.append(view)
        return [ImagePart(view.image)]
