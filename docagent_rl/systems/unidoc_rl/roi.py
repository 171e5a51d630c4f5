"""Rewards for where boxes were drawn on the chosen pages (UniDoc-RL, visual perception reward).

All boxes are `(left, top, right, bottom)` as fractions of the raw page. `wanted` maps a page to its gold
boxes; pages without an entry have none.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from enum import StrEnum

from docagent_rl.actions.base import Box
from docagent_rl.systems.unidoc_rl.search_rounds import SearchRound

Wanted = Mapping[Hashable, Sequence[Box]]


class RoiRule(StrEnum):
    """How boxes are scored."""

    IOU = "iou"
    """Mean over the boxes drawn of the best IoU with a gold box (the paper)."""
    F1 = "f1"
    """Mean over the searches of an F1 of matched boxes (the released code)."""


def iou(a: Box, b: Box) -> float:
    """Return the intersection over union of two rectangles, in `[0, 1]`; 0 when neither has an area."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    common = max(width, 0.0) * max(height, 0.0)
    union = _area(a) + _area(b) - common
    return min(common / union, 1.0) if union > 0 else 0.0


def roi_iou(
    rounds: Sequence[SearchRound],
    wanted: Wanted,
    *,
    abstention: bool = True,
    implicit: bool = False,
    gold: Collection[Hashable] = (),
) -> float:
    """Return the mean over the boxes drawn of the best IoU with a gold box of their page (section 3.3).

    Without any box the paper is silent: 1 when pages were chosen and none of them has gold boxes, else 0. A
    search that brought up a gold page and was not followed by a choice denies it: otherwise a choice among
    the pages of any further search would make up for it.

    Args:
        rounds: the searches that brought up candidates.
        wanted: gold boxes by page.
        abstention: whether drawing nothing can be right; otherwise it scores 0.
        implicit: a search without a choice counts as one for its first candidate.
        gold: gold pages.

    Returns:
        A value in `[0, 1]`.
    """
    best = [
        max((iou(box, gold) for gold in wanted.get(_canvas(item, implicit), ())), default=0.0)
        for item in rounds
        for box in item.boxes
    ]
    if best:
        return sum(best) / len(best)
    chosen = [item.chosen(implicit=implicit) for item in rounds]
    pages = [page for page in chosen if page is not None]
    if any(
        page is None and set(item.candidates) & set(gold) for page, item in zip(chosen, rounds, strict=True)
    ):
        return 0.0
    return float(abstention and bool(pages) and not any(wanted.get(page) for page in pages))


def roi_f1(
    rounds: Sequence[SearchRound],
    wanted: Wanted,
    *,
    threshold: float = 0.5,
    abstention: bool = True,
    implicit: bool = False,
) -> float:
    """Return the mean over the searches of the F1 of the boxes drawn on the page chosen last.

    The rule of the released code, with one-to-one matches: 1 where there is nothing to draw and nothing was
    drawn, 0 where only one of the two holds or nothing was chosen, `2 * matches / (gold + drawn)` elsewhere.

    Args:
        rounds: the searches that brought up candidates.
        wanted: gold boxes by page.
        threshold: least IoU of a match.
        abstention: whether drawing nothing can be right; otherwise it scores 0.
        implicit: a search without a choice counts as one for its first candidate.

    Returns:
        A value in `[0, 1]`; 0 without searches.
    """
    if not rounds:
        return 0.0
    scores = []
    for item in rounds:
        page = item.chosen(implicit=implicit)
        gold = wanted.get(page, ())
        if gold or item.boxes:
            scores.append(2 * matches(gold, item.boxes, threshold) / (len(gold) + len(item.boxes)))
        else:
            scores.append(float(abstention and page is not None))
    return sum(scores) / len(scores)


def matches(gold: Sequence[Box], drawn: Sequence[Box], threshold: float) -> int:
    """Return the number of one-to-one matches: pairs by falling IoU, ties by order, gold boxes first."""
    pairs = [(-iou(g, d), i, j) for i, g in enumerate(gold) for j, d in enumerate(drawn)]
    taken_gold: set[int] = set()
    taken_drawn: set[int] = set()
    for value, i, j in sorted(pairs):
        if -value < threshold:
            break
        if i not in taken_gold and j not in taken_drawn:
            taken_gold.add(i)
            taken_drawn.add(j)
    return len(taken_gold)


def _canvas(item: SearchRound, implicit: bool) -> Hashable | None:
    """Return the page that the boxes of a search were drawn on."""
    return item.chosen(implicit=implicit) if item.drawn_on is None else item.drawn_on


def _area(box: Box) -> float:
    return max(box[2] - box[0], 0.0) * max(box[3] - box[1], 0.0)
