"""The rewards of UniDoc-RL, kept by hand (paper: section on rewards; released: its reward function)."""

from __future__ import annotations

from collections.abc import Mapping

from docagent_rl.records.record import Record
from tests.players.formulas import by_rank, iou, ndcg, weighted

WEIGHTS = {"search_ndcg": 0.1, "select": 0.1, "roi": 0.1, "format": 0.1, "outcome": 0.6}


class Table:
    """What happened in an episode, as far as rewards go: `(candidates, selected, boxes)` of each search, each
    box with the page that it was drawn on."""

    def __init__(self, record: Record) -> None:
        self.gold = set(record.gold_pages)
        self.wanted = {(record.doc_id, page): list(boxes) for page, boxes in record.evidence_boxes.items()}
        self.searches: list[tuple[list, tuple[str, int] | None, list]] = []

    def select(self, variant: str) -> float:
        """Mean over the searches: was the page selected that should be?"""
        right, matters = [], []
        for pages, chosen, _ in self.searches:
            gold = [page for page in pages if page in self.gold]
            if variant == "released":
                right.append((chosen or pages[0]) == (gold or pages)[0])
            else:
                right.append(chosen in self.gold if gold else chosen == pages[0])
            matters.append(bool(gold))
        mean = sum(right) / len(right) if right else 0.0
        if variant == "released" or not right:
            return mean
        # a right choice where nothing was to be found cannot make up for a wrong one
        hits = sum(hit and matter for hit, matter in zip(right, matters, strict=True))
        misses = len(right) - sum(right)
        return hits / (hits + misses) if hits + misses else 1.0

    def roi(self, variant: str) -> float:
        """As published the mean best IoU of the boxes drawn, as released an F1 at 0.5 a search."""
        return self._roi_iou() if variant == "paper" else self._roi_f1()

    def _roi_iou(self) -> float:
        drawn = [pair for _, _, boxes in self.searches for pair in boxes]
        if not drawn:
            missed = [pages for pages, chosen, _ in self.searches if not chosen and self.gold & set(pages)]
            if missed:
                return 0.0
            selected = [chosen for _, chosen, _ in self.searches if chosen]
            return float(bool(selected) and not any(self.wanted.get(page) for page in selected))
        best = [max((iou(box, q) for q in self.wanted.get(page, ())), default=0.0) for page, box in drawn]
        return sum(best) / len(best)

    def _roi_f1(self) -> float:
        scores = []
        for pages, chosen, boxes in self.searches:
            wanted = list(self.wanted.get(chosen or pages[0], ()))
            if not wanted or not boxes:
                scores.append(float(not wanted and not boxes))
                continue
            pairs = sorted(
                ((iou(q, b), i, j) for i, q in enumerate(wanted) for j, (_, b) in enumerate(boxes)),
                reverse=True,
            )
            used_wanted, used_boxes = set(), set()
            for value, i, j in sorted(pairs, reverse=True):
                if value >= 0.5 and i not in used_wanted and j not in used_boxes:
                    used_wanted.add(i)
                    used_boxes.add(j)
            scores.append(2 * len(used_wanted) / (len(wanted) + len(boxes)))
        return sum(scores) / len(scores) if scores else 0.0

    def terms(self, variant: str, *, form: float, outcome: float) -> dict[str, float]:
        """The five terms, unweighted."""
        ndcg_of = ndcg(by_rank([pages for pages, _, _ in self.searches]), self.gold)
        return {"search_ndcg": ndcg_of, "select": self.select(variant), "roi": self.roi(variant),
                "format": form, "outcome": outcome}  # fmt: skip


def total(variant: str, terms: Mapping[str, float]) -> float:
    """The reward of an episode; as released nothing is paid without the format."""
    return 0.0 if variant == "released" and not terms["format"] else weighted(terms, WEIGHTS)
