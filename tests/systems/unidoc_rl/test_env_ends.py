"""How trajectories of UniDoc-RL end and what they are paid."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.envs.base import EndReason
from docagent_rl.envs.services import RetrieverService
from docagent_rl.retrieval import Hit
from docagent_rl.systems.unidoc_rl.config import UniDocConfig
from tests.systems.unidoc_rl.play import BOX, EVERY, NOTE, RIGHT, VARIANTS, WRONG, select, shown

NOTHING = "<search>none</search>"


@dataclass
class Ranking:
    """A retriever with a ranking for every query, as lists of `doc#page`."""

    rankings: dict[str, list[str]]

    def search(self, queries, *, doc_id=None, top_k, exclude=()):
        found = [[PageRef.parse(page) for page in self.rankings[query]] for query in queries]
        return [
            [Hit(ref, 1 / rank) for rank, ref in enumerate(refs, 1) if ref not in exclude][:top_k]
            for refs in found
        ]


# the worked example: T9 is K#5, the other T are pages of M, the R are pages of Q
RANKINGS = {
    "one": ["M#5", "M#7", "K#5", "Q#1"],
    "two": ["M#2", "K#5", "M#7", "M#1"],
    "three": ["Q#1", "Q#2", "Q#3"],
    "none": [],
    # a retriever that repeats itself
    "twice": ["K#1", "K#1", "K#2", "K#2", "K#3", "K#3"],
}
DRAWN = [[66, 118, 274, 331], [352, 400, 498, 480]]


def page_size(variant):
    """How large pages of this corpus are shown."""
    return UniDocConfig.for_variant(variant).display.shown((1733, 1226))


@pytest.fixture
def ranked(services):
    return replace(services, retriever=RetrieverService(Ranking(RANKINGS)))


@pytest.fixture
def worked(make_sample, play, make, ranked):
    """Plays the sample and the turns of sections 14.1 and 14.2; boxes scaled to the page at hand."""
    sample = make_sample(
        evidence_pages=(5,),
        evidence_boxes={5: ((0.12, 0.15, 0.52, 0.46), (0.56, 0.48, 0.94, 0.6))},
        extra={"page_ids": ["K#5", "M#7"], "crop_required": {"5": True}},
    )

    async def worked(variant, last, change=lambda turn: turn, **settings):
        width, height = page_size(variant)
        scales = [width / 532, height / 753] * 2
        boxes = [[edge * scale for edge, scale in zip(box, scales, strict=True)] for box in DRAWN]
        turns = [
            "<think>a</think><search>one</search>",
            select(2),
            f"<think>closer</think><bbox>{boxes}</bbox>",
            f"<think>b</think>{NOTE}<think>c</think><search>two</search>",
            select(1),
            "<search>three</search>",
            select(0),
        ]
        return await play(make(variant, services=ranked, **settings), sample, map(change, [*turns, *last]))

    return worked


@pytest.mark.parametrize(
    ("variant", "reward", "last", "ndcg", "total"),
    [
        ("paper", {}, [RIGHT], 0.482476, 0.909735),
        ("paper", {}, [WRONG], 0.482476, 0.309735),
        ("paper", {}, [NOTHING] * 3, 0.482476, 0.209735),
        ("released", {}, [RIGHT], 0.482476, 0.898248),
        ("released", {}, [WRONG], 0.482476, 0.298248),
        ("released", {}, [NOTHING] * 4, 0.482476, 0.248248),
        # weights of dropped terms are not redistributed
        ("paper", {"weights": {"search_ndcg": 0, "select": 0, "roi": 0}}, [RIGHT], 0.482476, 0.7),
        ("released", {"ndcg_as_published": True}, [RIGHT], 0, 0.898248 - 0.0482476),
    ],
)
async def test_worked_totals(worked, variant, reward, last, ndcg, total):
    state = await worked(variant, last, reward=reward)
    assert state.results[-1].end is (EndReason.TURN_LIMIT if NOTHING in last else EndReason.ANSWERED)
    values = state.terms.values
    assert values["search_ndcg"] == pytest.approx(ndcg, abs=1e-6)
    assert values["select"] == pytest.approx(1 if variant == "paper" else 2 / 3)
    assert values["roi"] == pytest.approx(0.614879 if variant == "paper" else 0.833333, abs=1e-6)
    assert state.terms.reward == pytest.approx(total, abs=1e-6)
    assert state.metrics["reward/total"] == state.terms.reward
    assert set(state.rewards[:-1]) == {0.0}
    assert shown(state.results[0]) == ["M#5", "M#7", "K#5"]
    assert shown(state.results[3]) == ["M#2", "M#7", "M#1"]


@pytest.mark.parametrize(("variant", "total", "asked"), [("paper", 0.909735, 1), ("released", 0.0, 0)])
async def test_an_trajectory_without_any_information_block(worked, judge, variant, total, asked):
    state = await worked(variant, [RIGHT], lambda turn: turn.replace(NOTE, ""))
    assert state.terms.reward == pytest.approx(total, abs=1e-6)
    assert len(judge.asked) == asked
    # validation asks the judge all the same
    validated = await worked(variant, [RIGHT], lambda turn: turn.replace(NOTE, ""), validate=True)
    assert validated.terms.reward == pytest.approx(total, abs=1e-6)
    assert validated.metrics["reward/outcome"] == 1


@pytest.mark.parametrize(
    ("turns", "released", "paper", "graded"),
    [
        ([EVERY, select(0), RIGHT], 1, 1, 1),
        ([EVERY, RIGHT], 0, 1, 1),
        ([EVERY, select(0), "<answer>blue</answer>"], 0, 1, 1),
        ([EVERY, select(0), "none", RIGHT], 1, 0, 0.75),
        ([EVERY, select(0), f"{NOTE}{EVERY}", *["none"] * 7, BOX], 0.5, 0, 0.3),
    ],
)
async def test_formats(make, make_sample, play, turns, released, paper, graded):
    envs = [make("released"), make(), make(format={"mode": "graded"})]
    values = [(await play(env, make_sample(), turns)).terms.values["format"] for env in envs]
    assert values == [released, paper, graded]


@pytest.mark.parametrize("variant", VARIANTS)
async def test_selecting_again_keeps_the_boxes(make, make_sample, play, variant):
    """A junk crop on a page without gold boxes costs the term, whatever is selected afterwards."""
    two = "<bbox>[[0, 0, 90, 90], [100, 100, 200, 200]]</bbox>"
    for more in ([], [select(1)], [select(0)], [select(1), BOX], [select(2), BOX]):
        state = await play(make(variant), make_sample(), [EVERY, select(1), two, *more, RIGHT])
        assert (state.metrics["boxes"], state.terms.values["roi"]) == (2, 0)
        assert all(result.info["effect"].get("scored", []) == [] for result in state.results[3:])
    clean = await play(make(variant), make_sample(), [EVERY, select(1), RIGHT])
    assert clean.terms.values["roi"] == 1


@pytest.mark.parametrize(("variant", "roi"), [("paper", 1), ("released", 0)])
async def test_boxes_belong_to_the_page_they_were_drawn_on(make, make_sample, play, variant, roi):
    """As published a box is held against its own page; as released against the page selected last."""
    width, height = page_size(variant)
    whole = make_sample(evidence_pages=(3,), evidence_boxes={3: ((0.1, 0.1, 0.5, 0.5),)}, extra={})
    box = f"<bbox>[{0.1 * width}, {0.1 * height}, {0.5 * width}, {0.5 * height}]</bbox>"
    turns = ["<search>pagek3 everypage</search>", select(0), box, select(1), RIGHT]
    state = await play(make(variant), whole, turns)
    assert state.terms.values["roi"] == pytest.approx(roi, abs=0.01)


async def test_a_page_found_twice_is_shown_once(make, make_sample, play, ranked):
    state = await play(make(services=ranked), make_sample(), ["<search>twice</search>"])
    assert shown(state.results[0]) == ["K#1", "K#2", "K#3"]
    assert [page["rank"] for page in state.results[0].info["effect"]["pages"]] == [1, 3, 5]


ROUNDS = [EVERY, select(0)] * 5


@pytest.mark.parametrize(
    ("turns", "images", "end"),
    [
        # four images a round; after the sixth search there are 23, and only an answer is left
        *(([*ROUNDS, EVERY, last], 23, EndReason.IMAGE_LIMIT) for last in (select(0), EVERY, "none")),
        ([*ROUNDS, EVERY, RIGHT], 23, EndReason.ANSWERED),
        # at 22 images the next search still runs
        ([*ROUNDS, BOX, BOX, EVERY, EVERY], 25, EndReason.IMAGE_LIMIT),
    ],
)
async def test_image_limit(make, make_sample, play, turns, images, end):
    state = await play(make(max_turns=30), make_sample(), turns)
    assert (state.metrics["images"], state.results[-1].end) == (images, end)
    assert images <= UniDocConfig(max_turns=30).max_images == 25
    limited = end is EndReason.IMAGE_LIMIT
    assert (state.metrics["image_limit"], state.results[-1].info["executed"]) == (limited, not limited)
