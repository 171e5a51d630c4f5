"""The state of an episode of UniDoc-RL, and the numbers that follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from docagent_rl.actions.base import Action, Box, Crop, Search, Select
from docagent_rl.data.record import Record
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import EndReason, RewardTerms
from docagent_rl.envs.stitches import StitchView
from docagent_rl.envs.turn_log import TurnLog
from docagent_rl.envs.views import View
from docagent_rl.rewards.retrieval import recall
from docagent_rl.rewards.search_rounds import SearchRound, interleave
from docagent_rl.rewards.unidoc_rl import TERMS


@dataclass(frozen=True, slots=True)
class Progress:
    """What an episode has achieved; replaced as a whole, so that a turn can be taken back."""

    rounds: tuple[SearchRound, ...] = ()
    """Searches that brought up candidates."""
    pending: tuple[View, ...] = ()
    """The candidates of the last of them; an index refers to these."""
    view: View | StitchView | None = None
    """The image that a box refers to; none until a candidate of the last search is selected."""
    images: int = 0
    """Images in the context."""

    def shown(self, views: Sequence[View | StitchView], **changes: Any) -> Progress:
        """After these images were shown, with other fields changed."""
        return replace(self, images=self.images + len(views), **changes)


@dataclass(slots=True)
class Episode:
    """The state of one episode."""

    sample: Record
    gold: frozenset[PageRef]
    wanted: dict[PageRef, tuple[Box, ...]]
    """Gold boxes by page."""
    references: tuple[str, ...]
    progress: Progress = Progress()
    settled: Progress = Progress()
    """As it was before the last turn: what is left when its observation is dropped."""
    log: TurnLog = field(default_factory=TurnLog)
    end: EndReason | None = None
    terms: RewardTerms = field(default_factory=RewardTerms)

    def ran(self, kind: type[Action]) -> int:
        """Turns that carried out an action of this kind and whose observation was shown."""
        return sum(record.ran(kind) and not record.dropped for record in self.log.records)

    def selected(self, *, implicit: bool) -> list[PageRef]:
        """The selected page of each search that has one; `implicit` as in `SearchRound.chosen`."""
        chosen = [item.chosen(implicit=implicit) for item in self.progress.rounds]
        return [cast(PageRef, page) for page in chosen if page is not None]

    def metrics(self, *, implicit: bool) -> dict[str, float]:
        """The metrics of `UniDocEnv`."""
        rounds = self.progress.rounds
        effects = [record.effect for record in self.log.records if not record.dropped]
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
            "informed_turns": float(sum(bool(record.parsed.notes) for record in self.log.records)),
            "images": float(self.progress.images),
            "pages_seen": float(len(shown)),
            "retrieval_recall": recall(shown, self.gold),
            "recall_first": recall([item.candidates[0] for item in rounds], self.gold),
            "recall_selected": recall(self.selected(implicit=implicit), self.gold),
        }
