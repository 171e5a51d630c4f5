"""UniDoc-RL by hand (paper: section on rewards; released: its reward function)."""

from __future__ import annotations

import json

from docagent_rl.documents import PageRef
from docagent_rl.envs.base import EndReason
from docagent_rl.records.record import Record
from docagent_rl.systems.unidoc_rl.config import UniDocConfig
from docagent_rl.systems.unidoc_rl.env import UniDocEnv
from tests.players.attacks import Voice
from tests.players.formulas import by_rank, iou, ndcg, weighted
from tests.players.readers import tagged_answer
from tests.players.referee import Limits
from tests.players.rules import Rules, paid_at_the_end
from tests.systems.unidoc_rl.play import adversary, oracle

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


class UniDoc(Rules):
    env, config = UniDocEnv, UniDocConfig
    voice = Voice(
        core=lambda text: f"<answer>{text}</answer>",
        turn=lambda block: f"<think>so</think>{block}",
        search=lambda query: f"<search>{query}</search>",
        calls=(lambda text: f"<select>{text}</select>", lambda text: f"<bbox>{text}</bbox>"),
        boxes=lambda text: f"<bbox>{text}</bbox>",
        wrapper=("think", "information"),
    )
    adversary = staticmethod(adversary)

    def __init__(self, variant):
        super().__init__(variant, allow_empty_gold=True)
        # at most 22 + 3 images; a strip with sides of 1 to 200 may take a few more than 512 tokens
        turns = 10 if variant == "paper" else 11
        self.limits = Limits(turns=turns, images=25, tokens=25 * 700, reward=(0.0, 1.0))

    @staticmethod
    def answer(turn):
        return tagged_answer(turn, ("search", "select", "bbox", "answer"), notes=("information",))

    def shown_size(self, corpus, ref):
        """How large a page is shown: what the agent sees."""
        return UniDocConfig.for_variant(self.variant).display.shown(corpus.store.page(ref).size)

    def places(self, corpus, record):
        """Where each gold page stands among the three candidates of its search."""
        taken, at = [], {}
        for page in sorted(record.gold_pages):
            pages = [hit for hit in corpus.hits(corpus.query(*page), 20) if hit not in taken][:3]
            at[page] = pages.index(page)
            taken.append(page)
        return at

    def best(self, corpus, record):
        if not record.gold_pages:
            # any search with its first candidate will do
            note = "<information>seen</information>"
            search, answer = f"<search>{record.question}</search>", f"<answer>{self.secret(record)}</answer>"
            return [search, "<select>0</select>", f"{note}{answer}"], [0.0, 0.0, 0.9]
        at = self.places(corpus, record)
        size = self.shown_size(corpus, PageRef(record.doc_id, 1))
        turns = list(oracle(record, size, corpus.query, lambda *page: at[page]))
        return turns, [0.0] * (len(turns) - 1) + [1.0]

    def good_calls(self, corpus, record):
        return [
            *(f"<search>{corpus.query(*page)}</search>" for page in sorted(record.gold_pages)),
            "<search>everypage</search>",
            "<select>0</select>",
            "<select>1</select>",
            "<bbox>[[10, 10, 200, 300], [0, 0, 9000, 9000]]</bbox>",
            "<information>seen</information>",
            "<information>seen</information><search>page report</search>",
        ]

    def audit(self, game, corpus, said, right):
        terms = self.retold(game, corpus).terms(self.variant, form=self.form(game), outcome=right)
        paid = self.variant == "paper" or terms["format"]
        # as released nothing is paid without the format
        paid_at_the_end(game, {**terms, "total": weighted(terms, WEIGHTS) if paid else 0.0})

    def form(self, game):
        answered = game.results[-1].end is EndReason.ANSWERED
        if self.variant == "paper":
            return float(answered and all(result.info["valid"] for result in game.results))
        noted = any(
            turn.text[start:end].strip() and turn.text[:start].endswith("<information>")
            for turn, result in zip(game.turns, game.results, strict=True)
            for start, end in result.info["notes"]
        )
        if not (game.ran("search") and game.ran("select") and noted):
            return 0.0
        return 1.0 if answered else 0.5

    def retold(self, game, corpus):
        """The searches of an episode from the records of its turns; boxes from the text of the turn."""
        table, view = Table(game.record), None
        for turn, result, effect in zip(game.turns, game.results, game.effects, strict=True):
            match effect["kind"]:
                case "candidates":
                    pages = [_page(page["page"]) for page in effect["pages"]]
                    table.searches.append((pages, None, []))
                    view = None
                case "selection":
                    pages, _, drawn = table.searches[-1]
                    view = _page(effect["page"])
                    assert view == pages[self._index(turn, result, len(pages))]
                    table.searches[-1] = (pages, view, drawn)
                case "crop" if view:
                    pages, chosen, before = table.searches[-1]
                    if not before:
                        size = self.shown_size(corpus, PageRef(*view))
                        drawn = [(view, box) for box in _drawn(turn, result, size)]
                        table.searches[-1] = (pages, chosen, drawn)
                    view = None
        return table

    def _index(self, turn, result, count):
        """The index that a turn says; only as released, one that is none stands for the first candidate."""
        said = turn.text[slice(*result.info["action"]["argument"])].strip()
        good = said.isascii() and said.isdecimal() and len(said) < 9 and int(said) < count
        assert good or self.variant == "released"
        return int(said) if good else 0


def _page(name):
    doc_id, _, page = name.rpartition("#")
    return doc_id, int(page)


def _drawn(turn, result, size):
    """The boxes that a turn says, as fractions of the page, clamped to it."""
    boxes = json.loads(turn.text[slice(*result.info["action"]["argument"])])
    boxes = boxes if isinstance(boxes[0], list) else [boxes]
    return [[min(max(edge / side, 0), 1) for edge, side in zip(box, size * 2, strict=True)] for box in boxes]
