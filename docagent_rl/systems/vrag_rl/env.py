"""The environment of VRAG-RL (arXiv 2505.22019): search a corpus of page images, zoom, answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from docagent_rl.actions.base import Answer, Crop, Search
from docagent_rl.actions.coordinates import CropError
from docagent_rl.actions.grammar import Reader, TagGrammar, read_answer, read_box, read_search
from docagent_rl.base.prompts import PromptSpec
from docagent_rl.documents import PageRef
from docagent_rl.documents.display import DisplayError
from docagent_rl.envs.base import (
    AssistantTurn,
    EndReason,
    EnvState,
    ImagePart,
    Part,
    RewardTerms,
    measured,
)
from docagent_rl.envs.checks import references
from docagent_rl.envs.tool_env import ToolEnv
from docagent_rl.envs.turn_log import LoggedTurn
from docagent_rl.envs.views import View, crop_view
from docagent_rl.rewards.retrieval import ndcg, recall
from docagent_rl.samples.sample import Sample
from docagent_rl.systems.vrag_rl.config import VragConfig
from docagent_rl.systems.vrag_rl.rewards import TERMS, format_reward


@dataclass(slots=True)
class VragState(EnvState):
    """The state of one trajectory."""

    gold: frozenset[PageRef]
    references: tuple[str, ...]
    shown: list[PageRef] = field(default_factory=list)
    """Pages that searches showed, in order, each once: the list that the retrieval term reads."""
    views: list[View] = field(default_factory=list)
    """All images shown; a box refers to the last."""
    settled: tuple[int, int] = (0, 0)
    """Lengths of `shown` and `views` before the last turn: what is left when its observation is dropped."""

    @property
    def searched(self) -> bool:
        """A search was carried out."""
        return self.log.ran(Search) > 0


class VragEnv(ToolEnv[VragState]):
    """One trajectory of VRAG-RL.

    Observations are user messages: the images a search or a zoom led to and nothing else, or a text when the
    turn led to none. The reward comes with the last turn; its terms are `rewards.TERMS`. Validation may pad
    boxes differently and plays questions without gold pages.
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
        """Return the grammar: thoughts in `<think>`; then `<search>`, `<bbox>` or `<answer>`.

        `region_alias` also accepts `<region>` for `<bbox>`: the paper's body and Algorithm 1 use that name,
        its printed prompt and the released code the other. Without `crop` neither means anything.
        """
        boxes = ("bbox", "region") if config.grammar.region_alias else ("bbox",)
        crops: dict[str, Reader] = dict.fromkeys(boxes, read_box) if config.grammar.crop else {}
        return TagGrammar({"search": read_search, **crops, "answer": read_answer})

    def variables(self, state: VragState) -> dict[str, Any]:
        """Return what every part of the prompt may name."""
        return {
            "turns": self._config.assistant_turns,
            "crop": self._config.grammar.crop,
            "frame": self._config.coords.frame.value,
            "pages": self._config.search.pages_per_search,
        }

    def new_state(self, sample: Sample) -> VragState:
        """Return the state before the first turn (see `DocEnv.new_state`)."""
        return VragState(sample, self.gold_pages(sample), references(sample))

    def read(self, state: VragState, turn: AssistantTurn) -> LoggedTurn:
        """Parse a turn; what it shows can be taken back until the next one."""
        state.settled = (len(state.shown), len(state.views))
        return super().read(state, turn)

    def take_back(self, state: VragState) -> None:
        """Forget the pages and views of the last turn."""
        pages, views = state.settled
        del state.shown[pages:], state.views[views:]

    async def execute(self, state: VragState, logged: LoggedTurn, text: str) -> Sequence[Part]:
        """Search or zoom."""
        parts: list[Part] | None = None
        if isinstance(logged.action, Search):
            parts = await self._search(state, logged, logged.action)
        elif isinstance(logged.action, Crop):
            parts = self._crop(state, logged, logged.action)
        if parts is None:
            parts = [self.part("feedback", reason=self.feedback(logged))]
        if self._config.final_turn.notice and logged.turn == self._config.assistant_turns - 1:
            parts.append(self.part("final_turn"))
        return parts

    async def score(self, state: VragState, logged: LoggedTurn, action: Answer) -> float:
        """Return the judge's score."""
        fmt = format_reward(searched=state.searched, answered=True)
        return await self.judge(logged, state.references, action.text, fmt=fmt)

    def settle(self, end: EndReason, outcome: float) -> RewardTerms:
        """End the trajectory and return its reward (Eq. 11 and 12)."""
        state = self.running
        values = {
            "retrieval_ndcg": ndcg(state.shown, state.gold),
            "outcome": outcome,
            "format": format_reward(searched=state.searched, answered=end is EndReason.ANSWERED),
        }
        return state.settle(end, {**values, "total": self._config.reward.formula.total(values)})

    def metrics(self) -> dict[str, float]:
        """Return numbers of the trajectory by name.

        `retrieval_*` are of questions with gold pages; `invalid_rate_paper` also counts an answer before any
        search as invalid, as the paper's analysis does. `reward/outcome` is the validation score of either
        variant: with the gate it is 0 without a search.
        """
        state = self.state
        numbers = state.common_metrics(TERMS)
        faults = numbers["invalid_actions"] + (state.end is EndReason.ANSWERED and not state.searched)
        return {
            **numbers,
            "invalid_rate_paper": faults / numbers["turns"] if numbers["turns"] else 0.0,
            "searches": float(state.log.ran(Search)),
            "no_new_page": float(state.log.effects("no_new_page")),
            "crops": float(len(state.views) - len(state.shown)),
            "pages_seen": float(len(state.shown)),
            **measured(
                {
                    "retrieval_recall": recall(state.shown, state.gold),
                    "retrieval_ndcg": ndcg(state.shown, state.gold) if state.gold else None,
                }
            ),
        }

    async def _search(self, state: VragState, logged: LoggedTurn, action: Search) -> list[Part]:
        search = self._config.search
        views = await self.search_pages(
            logged, action.query, state.shown, search.pages_per_search, exclude=search.exclude_shown
        )
        state.shown += [view.image.page for view in views]
        state.views += views
        return [ImagePart(view.image) for view in views] or [self.part("no_new_page")]

    def _crop(self, state: VragState, logged: LoggedTurn, action: Crop) -> list[Part] | None:
        if not state.views:
            logged.refuse("no image was shown yet")
            return None
        coords = self._config.coords
        try:
            view = crop_view(
                state.views[-1],
                action.boxes[0],
                self._config.display,
                logged.turn,
                frame=coords.frame,
                rounding=coords.rounding,
                pad=self._config.crop.padding(validate=self._validate),
            )
        except (CropError, DisplayError) as error:
            logged.refuse(str(error))
            return None
        logged.effect = {"kind": "crop", **view.to_dict()}
        logged.image_tokens = view.tokens
        state.views.append(view)
        return [ImagePart(view.image)]
