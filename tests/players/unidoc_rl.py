"""UniDoc-RL by hand (paper: section on rewards; release: its reward function)."""

import json
from dataclasses import dataclass, field

from docagent_rl.documents import PageRef
from docagent_rl.envs.base import EndReason
from docagent_rl.systems.unidoc_rl.config import UniDocConfig
from docagent_rl.systems.unidoc_rl.env import UniDocEnv
from tests.players.attacks import Voice
from tests.players.formulas import by_rank, iou, ndcg
from tests.players.readers import tagged_answer
from tests.players.referee import Limits
from tests.players.rules import Rules, paid_at_the_end
from tests.systems.unidoc_rl.play import adversary, oracle

WEIGHTS = {"search_ndcg": 0.1, "select": 0.1, "roi": 0.1, "format": 0.1, "outcome": 0.6}


@dataclass
class Search:
    """A search with its candidates, the selected one, and boxes with the page on which they were
    drawn.
    """

    pages: list[tuple[str, int]]
    chosen: tuple[str, int] | None = None
    boxes: list[tuple[tuple[str, int], list[float]]] = field(default_factory=list)


def selection(variant, searches, gold):
    """Return the mean over the searches of whether the right page was selected."""
    judged = []
    for search in searches:
        found = [page for page in search.pages if page in gold]
        if variant == "released":
            right = (search.chosen or search.pages[0]) == (found or search.pages)[0]
        else:
            right = search.chosen in gold if found else search.chosen == search.pages[0]
        # as published, a right choice where nothing was to be found cannot make up for a wrong one
        if found or not right or variant == "released":
            judged.append(right)
    return sum(judged) / len(judged) if judged else float(bool(searches))


def mean_iou(searches, gold, wanted):
    """Return the mean best IoU of the boxes, as published."""
    drawn = [pair for search in searches for pair in search.boxes]
    if not drawn:
        if any(not search.chosen and gold & set(search.pages) for search in searches):
            return 0.0
        selected = [search.chosen for search in searches if search.chosen]
        return float(bool(selected) and not any(wanted.get(page) for page in selected))
    best = [max((iou(box, q) for q in wanted.get(page, ())), default=0.0) for page, box in drawn]
    return sum(best) / len(best)


def matched_f1(searches, wanted):
    """Return an F1 at an IoU of 0.5 per search, as released."""
    scores = []
    for search in searches:
        right, boxes = wanted.get(search.chosen or search.pages[0], ()), search.boxes
        if not right or not boxes:
            scores.append(float(not right and not boxes))
            continue
        pairs = [(-iou(q, b), i, j) for i, q in enumerate(right) for j, (_, b) in enumerate(boxes)]
        taken = set()
        for value, i, j in sorted(pairs):
            if -value >= 0.5 and not {("wanted", i), ("drawn", j)} & taken:
                taken |= {("wanted", i), ("drawn", j)}
        scores.append(len(taken) / (len(right) + len(boxes)))
    return sum(scores) / len(scores) if scores else 0.0


class UniDoc(Rules):
    env, config = UniDocEnv, UniDocConfig
    voice = Voice(
        core=lambda text: f"<answer>{text}</answer>",
        turn=lambda block: f"<think>so</think>{block}",
        search=lambda query: f"<search>{query}</search>",
        calls=(lambda text: f"<select>{text}</select>", lambda text: f"<bbox>{text}</bbox>"),
        boxes=lambda text: f"<bbox>{text}</bbox>",
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
        """Return the size at which the agent sees a page."""
        return self.parsed.display.shown(corpus.store.page(ref).size)

    def places(self, corpus, sample):
        """Return the rank of each gold page among the three candidates of its search."""
        taken, at = [], {}
        for page in sorted(sample.gold_pages):
            pages = [hit for hit in corpus.hits(corpus.query(*page), 20) if hit not in taken][:3]
            at[page] = pages.index(page)
            taken.append(page)
        return at

    def best(self, corpus, sample):
        if not sample.gold_pages:
            # any search with its first candidate will do
            note = "<information>seen</information>"
            search, answer = (
                f"<search>{sample.question}</search>",
                f"<answer>{self.secret(sample)}</answer>",
            )
            return [search, "<select>0</select>", f"{note}{answer}"], [0.0, 0.0, 0.9]
        at = self.places(corpus, sample)
        size = self.shown_size(corpus, PageRef(sample.doc_id, 1))
        turns = list(oracle(sample, size, corpus.query, lambda *page: at[page]))
        return turns, [0.0] * (len(turns) - 1) + [1.0]

    def good_calls(self, corpus, sample):
        return [
            *(f"<search>{corpus.query(*page)}</search>" for page in sorted(sample.gold_pages)),
            "<search>everypage</search>",
            "<select>0</select>",
            "<select>1</select>",
            "<bbox>[[10, 10, 200, 300], [0, 0, 9000, 9000]]</bbox>",
            "<information>seen</information>",
            "<information>seen</information><search>page report</search>",
        ]

    def audit(self, state, corpus, said, right):
        searches, gold = self.retold(state, corpus), set(state.sample.gold_pages)
        wanted = {
            (state.sample.doc_id, page): boxes
            for page, boxes in state.sample.evidence_boxes.items()
        }
        published = self.variant == "paper"
        terms = {
            "search_ndcg": ndcg(by_rank([search.pages for search in searches]), gold),
            "select": selection(self.variant, searches, gold),
            "roi": mean_iou(searches, gold, wanted) if published else matched_f1(searches, wanted),
            "format": self.form(state),
            "outcome": right,
        }
        # as released nothing is paid without the format
        total = (
            sum(WEIGHTS[name] * terms[name] for name in WEIGHTS)
            if published or terms["format"]
            else 0.0
        )
        paid_at_the_end(state, {**terms, "total": total})

    def form(self, state):
        answered = state.results[-1].end is EndReason.ANSWERED
        if self.variant == "paper":
            return float(answered and all(result.record.valid for result in state.results))
        noted = any(
            turn.text[start:end].strip() and turn.text[:start].endswith("<information>")
            for turn, result in zip(state.turns, state.results, strict=True)
            for start, end in result.record.to_dict()["notes"]
        )
        if not (state.ran("search") and state.ran("select") and noted):
            return 0.0
        return 1.0 if answered else 0.5

    def retold(self, state, corpus):
        """Return the searches of a trajectory from the records of its turns, with boxes from the
        text of the turn.
        """
        searches, view = [], None
        for turn, result, effect in zip(state.turns, state.results, state.effects, strict=True):
            match effect["kind"]:
                case "candidates":
                    searches.append(Search([_page(page["page"]) for page in effect["pages"]]))
                    view = None
                case "selection":
                    view = searches[-1].chosen = _page(effect["page"])
                    assert (
                        view
                        == searches[-1].pages[self._index(turn, result, len(searches[-1].pages))]
                    )
                case "crop" if view:
                    if not searches[-1].boxes:
                        size = self.shown_size(corpus, PageRef(*view))
                        searches[-1].boxes = [(view, box) for box in _drawn(turn, result, size)]
                    view = None
        return searches

    def _index(self, turn, result, count):
        """Return the index that a turn names; only in the release, an invalid one stands for the
        first candidate.
        """
        said = turn.text[slice(*result.record.to_dict()["action"]["argument"])].strip()
        good = said.isascii() and said.isdecimal() and len(said) < 9 and int(said) < count
        assert good or self.variant == "released"
        return int(said) if good else 0


def _page(name):
    doc_id, _, page = name.rpartition("#")
    return doc_id, int(page)


def _drawn(turn, result, size):
    """Return the boxes that a turn names, as fractions of the page, clamped to it."""
    boxes = json.loads(turn.text[slice(*result.record.to_dict()["action"]["argument"])])
    boxes = boxes if isinstance(boxes[0], list) else [boxes]
    return [
        [min(max(edge / side, 0), 1) for edge, side in zip(box, size * 2, strict=True)]
        for box in boxes
    ]
