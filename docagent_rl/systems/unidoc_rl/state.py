"""The state of an trajectory of UniDoc-RL, and the numbers that follow from it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from docagent_rl.actions.base import Action, Box, Crop, Search, Select
from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef, PageRegion
from docagent_rl.envs.base import EndReason, EnvState, measured
from docagent_rl.envs.views import View
from docagent_rl.rewards.retrieval import recall
from docagent_rl.samples.sample import OTHER_BOXES, Sample, magnified_boxes
from docagent_rl.systems.unidoc_rl.rewards import TERMS
from docagent_rl.systems.unidoc_rl.roi import Wanted
from docagent_rl.systems.unidoc_rl.search_rounds import SearchRound, interleave, search_ndcg
from docagent_rl.systems.unidoc_rl.stacked_crops import StackedCropsView


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of an trajectory; replaced as a whole, so that a turn can be taken back."""

    rounds: tuple[SearchRound, ...] = ()
    """Searches that brought up candidates."""
    pending: tuple[View, ...] = ()
    """The candidates of the last of them; an index refers to these."""
    view: View | StackedCropsView | None = None
    """The image that a box refers to; none until a candidate of the last search is selected."""
    images: int = 0
    """Images in the context."""

    def shown(self, views: Sequence[View | StackedCropsView], **changes: Any) -> Progress:
        """Return the progress after these images were shown, with other fields changed."""
        return replace(self, images=self.images + len(views), **changes)


@dataclass(slots=True)
class State(EnvState):
    """The state of one trajectory."""

    gold: frozenset[PageRef]
    wanted: Wanted
    """Gold boxes by page."""
    references: tuple[str, ...]
    progress: Progress = Progress()
    settled: Progress = Progress()
    """As it was before the last turn: what is left when its observation is dropped."""

    def ran(self, kind: type[Action]) -> int:
        """Return the number of turns that carried out such an action and whose observation was shown."""
        return sum(logged.ran(kind) and not logged.dropped for logged in self.log.turns)

    def selected(self, *, implicit: bool) -> list[PageRef]:
        """Return the selected page of each search that has one; `implicit` as in `SearchRound.chosen`."""
        chosen = [item.chosen(implicit=implicit) for item in self.progress.rounds]
        return [cast(PageRef, page) for page in chosen if page is not None]

    def metrics(self, *, implicit: bool) -> dict[str, float]:
        """Return numbers of the trajectory by name.

        Besides `EnvState.common_metrics`: `image_limit`; `searches`, of which `no_new_page` found
        nothing, `selections`, of which `select_fallbacks` took the first candidate for want of an index,
        `crops` and the `boxes` that were scored, `informed_turns` (turns with an information block),
        `images`, `pages_seen`; of questions with gold pages `retrieval_recall` over all candidates shown,
        `recall_first` over the first of each search, `recall_selected` over the selected ones, and
        `retrieval_ndcg`. `reward/outcome` is the validation score of either variant.
        """
        rounds = self.progress.rounds
        effects = [logged.effect for logged in self.log.turns if not logged.dropped]
        shown = interleave(rounds)
        return {
            **self.common_metrics(TERMS),
            "image_limit": float(self.end is EndReason.IMAGE_LIMIT),
            "searches": float(self.ran(Search)),
            "no_new_page": float(sum(effect.get("kind") == "no_new_page" for effect in effects)),
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


def gold_regions(sample: Sample) -> Wanted:
    """Return the gold boxes of a question, as fractions of the raw page, by page, in all of its documents.

    A page with boxes has to be magnified, unless its flag (`extra.crop_required`, for further documents
    `extra.other_crop_required`) says otherwise; such a page has no entry, like one without boxes.

    Raises:
        UserError: a box leaves its page or is empty, or boxes or flags are malformed; the message names the
            question.
    """
    regions: dict[Hashable, tuple[Box, ...]] = {}
    for (doc_id, page), boxes in magnified_boxes(sample).items():
        ref = PageRef(doc_id, page)
        try:
            regions[ref] = tuple(PageRegion(ref, (box[0], box[1], box[2], box[3])).box for box in boxes)
        except UserError as error:
            field = "evidence_boxes" if doc_id == sample.doc_id else f"extra.{OTHER_BOXES}"
            raise UserError(f"question {sample.question_id!r}, field {field!r}: {error}") from error
    return regions
