"""The state of an episode of UniDoc-RL, and the numbers that follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from docagent_rl.actions.base import Action, Crop, Search, Select
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import EndReason, EpisodeState, RewardTerms
from docagent_rl.envs.measures import measured
from docagent_rl.envs.views import View
from docagent_rl.rewards.retrieval import recall
from docagent_rl.systems.unidoc_rl.rewards import TERMS
from docagent_rl.systems.unidoc_rl.roi import Wanted
from docagent_rl.systems.unidoc_rl.search_rounds import SearchRound, interleave, search_ndcg
from docagent_rl.systems.unidoc_rl.stacked_crops import StackedCropsView


@dataclass(frozen=True, slots=True)
class Progress:
    """What an episode has achieved; replaced as a whole, so that a turn can be taken back."""

    rounds: tuple[SearchRound, ...] = ()
    """Searches that brought up candidates."""
    pending: tuple[View, ...] = ()
    """The candidates of the last of them; an index refers to these."""
    view: View | StackedCropsView | None = None
    """The image that a box refers to; none until a candidate of the last search is selected."""
    images: int = 0
    """Images in the context."""

    def shown(self, views: Sequence[View | StackedCropsView], **changes: Any) -> Progress:
        """After these images were shown, with other fields changed."""
        return replace(self, images=self.images + len(views), **changes)


@dataclass(slots=True)
class Episode(EpisodeState):
    """The state of one episode."""

    gold: frozenset[PageRef]
    wanted: Wanted
    """Gold boxes by page."""
    references: tuple[str, ...]
    progress: Progress = Progress()
    settled: Progress = Progress()
    """As it was before the last turn: what is left when its observation is dropped."""
    terms: RewardTerms = field(default_factory=RewardTerms)

    def ran(self, kind: type[Action]) -> int:
        """Turns that carried out an action of this kind and whose observation was shown."""
        return sum(logged.ran(kind) and not logged.dropped for logged in self.log.turns)

    def selected(self, *, implicit: bool) -> list[PageRef]:
        """The selected page of each search that has one; `implicit` as in `SearchRound.chosen`."""
        chosen = [item.chosen(implicit=implicit) for item in self.progress.rounds]
        return [cast(PageRef, page) for page in chosen if page is not None]

    def metrics(self, *, implicit: bool) -> dict[str, float]:
        """The metrics of `UniDocEnv`."""
        rounds = self.progress.rounds
        effects = [logged.effect for logged in self.log.turns if not logged.dropped]
        kinds = [effect.get("kind") for effect in effects]
        shown = interleave(rounds)
        return {
            **{f"reward/{name}": float(self.terms.values.get(name, 0.0)) for name in TERMS},
            **self.log.metrics(),
            "finished": float(self.end is EndReason.ANSWERED),
            "context_full": float(self.end is EndReason.CONTEXT_FULL),
            "image_limit": float(self.end is EndReason.IMAGE_LIMIT),
            "searches": float(self.ran(Search)),
            "no_new_page": float(kinds.count("no_new_page")),
            "selections": float(self.ran(Select)),
            "select_fallbacks": float(sum(effect.get("fallback", False) for effect in effects)),
            "crops": float(self.ran(Crop)),
            "boxes": float(sum(len(item.boxes) for item in rounds)),
            "informed_turns": float(sum(bool(logged.parsed.notes) for logged in self.log.turns)),
            "images": float(self.progress.images),
            "pages_seen": float(len(shown)),
            **measured(
                {
                    "retrieval_recall": recall(shown, self.gold),
                    "recall_first": recall([item.candidates[0] for item in rounds], self.gold),
                    "recall_selected": recall(self.selected(implicit=implicit), self.gold),
                    "retrieval_ndcg": search_ndcg(rounds, self.gold) if self.gold else None,
                }
            ),
        }
