"""The observations of UniDoc-RL; `test_page_searchers.py` covers what it shares with VRAG-RL."""

from dataclasses import dataclass, replace

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.envs.base import EndReason, ImagePart, TextPart
from docagent_rl.envs.images import ImageSheet, render
from docagent_rl.envs.services import RetrieverService
from docagent_rl.retrieval import Hit
from docagent_rl.systems.unidoc_rl.config import UniDocConfig
from tests.systems.unidoc_rl.play import BOX, EVERY, NOTE, RIGHT, VARIANTS, WRONG, select, shown

NOTHING, FIRST_OF_ONE = "<search>unheardof</search>", {"top_k": 1, "candidates": 1}


def texts(result):
    return [
        part.text for part in result.observation.messages[0].parts if isinstance(part, TextPart)
    ]


async def test_a_search_shows_labelled_candidates(make, make_sample, play):
    state = await play(make(), make_sample(), [EVERY])
    (message,) = state.results[0].observation.messages
    assert [type(part) for part in message.parts] == [TextPart, ImagePart] * 3
    labels = [text.split("\n")[-1] for text in texts(state.results[0])]
    assert labels == ["Image 0: ", "Image 1: ", "Image 2: "]
    effect = state.results[0].record.effect.to_dict()
    assert (effect["kind"], effect["hits"]) == ("candidates", 10)
    pages = [(page["page"], page["rank"], page["gold"]) for page in effect["pages"]]
    assert pages == [("K#1", 1, False), ("K#2", 2, False), ("K#3", 3, True)]
    assert shown(state.results[0]) == ["K#1", "K#2", "K#3"]


async def test_a_selection_shows_the_page_again_at_the_same_size(make, make_sample, play):
    state = await play(make(), make_sample(), [EVERY, select(2)])
    candidates, (page,) = (result.observation.images for result in state.results)
    assert page.key == candidates[2].key
    effect, metrics = state.results[1].record.effect.to_dict(), state.metrics
    expected = {"kind": "selection", "index": 2, "page": "K#3", "gold": True, "fallback": False}
    assert effect.items() >= expected.items()
    assert (metrics["selections"], metrics["images"], metrics["pages_seen"]) == (1, 4, 3)
    # the page costs its tokens a second time
    assert metrics["image_tokens"] == 4 * effect["tokens"]
    recalls = [metrics[name] for name in ("retrieval_recall", "recall_first", "recall_selected")]
    assert recalls == pytest.approx([1 / 3, 0, 1 / 3])


@pytest.mark.parametrize(("variant", "recall"), [("paper", 0), ("released", 1 / 3)])
async def test_in_the_release_the_first_candidate_counts_as_selected(
    make, make_sample, play, variant, recall
):
    state = await play(make(variant), make_sample(), ["<search>pagek3</search>"])
    assert (state.metrics["recall_first"], state.metrics["recall_selected"]) == (1 / 3, recall)


@pytest.mark.parametrize(
    ("variant", "settings", "turns", "pages"),
    [
        ("paper", {}, [EVERY, select(1), EVERY], [1, 3, 4]),
        # a search without a selection leaves nothing out, in the release its first candidate
        ("paper", {}, [EVERY, select(1), EVERY, EVERY], [1, 3, 4]),
        ("released", {}, [EVERY, EVERY], [2, 3, 4]),
        # K2 was selected only until K4 was
        ("released", {}, [EVERY, EVERY, select(2), EVERY], [2, 3, 5]),
    ],
)
async def test_selected_pages_are_left_out_of_later_searches(
    make, make_sample, play, variant, settings, turns, pages
):
    state = await play(make(variant, **settings), make_sample(), turns)
    assert shown(state.results[-1]) == [f"K#{page}" for page in pages]
    assert state.metrics["selections"] == sum("<select>" in turn for turn in turns)


async def test_nothing_new(make, make_sample, play):
    """An empty search or a fault leaves the page in place, and the candidates of the previous
    search.
    """
    env = make(search=FIRST_OF_ONE)
    turns = [EVERY, select(0), EVERY, NOTHING, "none", BOX, select(0), BOX]
    state = await play(env, make_sample(), turns)
    for result in state.results[2:4]:
        assert (result.observation.images, result.record.valid) == ((), True)
    assert state.results[5].record.effect.to_dict()["kind"] == "crop"
    assert shown(state.results[6]) == ["K#1"]
    metrics = state.metrics
    assert (metrics["searches"], metrics["no_new_page"], metrics["invalid_actions"]) == (3, 2, 1)
    assert metrics["reward/select"] == 0
    assert (await env.conclude(EndReason.CONTEXT_FULL)).values["select"] == 1


@pytest.mark.parametrize(
    ("variant", "turns", "fallbacks"),
    [
        ("paper", [select(0)], 0),
        ("paper", [EVERY, select(3)], 0),
        ("paper", [EVERY, select("one")], 0),
        ("released", [EVERY, select(3)], 1),
        ("released", [EVERY, select("one")], 1),
    ],
)
async def test_indices_without_a_candidate(make, make_sample, play, variant, turns, fallbacks):
    """In the released variant they select the first candidate of the last search, if any."""
    state = await play(make(variant), make_sample(), turns)
    result, metrics = state.results[-1], state.metrics
    assert (result.record.valid, result.record.effect.to_dict().get("fallback")) == (
        bool(fallbacks),
        fallbacks or None,
    )
    assert shown(result) == ["K#1"] * fallbacks
    assert (
        metrics["select_fallbacks"]
        == metrics["selections"]
        == 1 - metrics["invalid_actions"]
        == fallbacks
    )


async def test_crops_are_stacked_from_the_selected_page(make, make_sample, play, store):
    """Boxes on a stack are cut and not scored."""
    boxes = "<bbox>[[100, 100, 300, 200], [400, 300, 500, 500]]</bbox>"
    turns = [EVERY, select(1), boxes, "<bbox>[0, 0, 50, 50]</bbox>", BOX]
    state = await play(make("released"), make_sample(), turns)
    (sheet,) = state.results[2].observation.images
    assert isinstance(sheet, ImageSheet)
    assert (sheet.pages, sheet.background) == ((PageRef("K", 2),), (0, 0, 0))
    assert render(sheet, store).size == sheet.size
    first, second, third = (result.record.effect.to_dict() for result in state.results[2:])
    assert first["rasters"] == [list(tile.image.raster) for tile in sheet.tiles]
    width, height = state.results[1].observation.images[0].size
    assert first["scored"][0] == pytest.approx(
        [100 / width, 100 / height, 300 / width, 200 / height]
    )
    assert second["rasters"][0][:2] == first["rasters"][0][:2]
    assert second["rasters"][0][2] < first["rasters"][0][2]
    assert second["scored"] == third["scored"] == []
    metrics = state.metrics
    assert (metrics["crops"], metrics["boxes"], metrics["images"]) == (3, 2, 7)


async def test_without_selection(make, make_sample, play):
    """Each search shows the best page that was not shown, which can be magnified at once."""
    env = make(grammar={"select": False})
    state = await play(env, make_sample(), [EVERY, BOX, EVERY, BOX, select(0), RIGHT])
    assert [shown(state.results[n]) for n in (0, 2)] == [["K#1"], ["K#2"]]
    assert [state.results[n].record.effect.to_dict()["kind"] for n in (1, 3)] == ["crop", "crop"]
    assert state.results[4].record.reason == "no_action"
    told = [state.prompt.messages[0].parts[0].text, texts(state.results[4])[0]]
    assert [text for text in told if "select" in text.lower() or "candidate" in text] == []
    assert (state.metrics["boxes"], state.metrics["pages_seen"]) == (2, 2)
    released = await play(
        make("released", grammar={"select": False}), make_sample(), [EVERY, RIGHT]
    )
    assert released.terms.values["format"] == 1


NO_REWARD = "<search>none</search>"


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
    """Return the size at which pages of this corpus are shown."""
    return UniDocConfig.for_variant(variant).display.shown((1733, 1226))


@pytest.fixture
def ranked(services):
    return replace(services, retriever=RetrieverService(Ranking(RANKINGS)))


@pytest.fixture
def worked(make_sample, play, make, ranked):
    """Play the sample and the turns of sections 14.1 and 14.2, with boxes scaled to the page."""
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
        return await play(
            make(variant, services=ranked, **settings), sample, map(change, [*turns, *last])
        )

    return worked


@pytest.mark.parametrize(
    ("variant", "reward", "last", "ndcg", "total"),
    [
        ("paper", {}, [RIGHT], 0.482476, 0.909735),
        ("paper", {}, [WRONG], 0.482476, 0.309735),
        ("paper", {}, [NO_REWARD] * 3, 0.482476, 0.209735),
        ("released", {}, [RIGHT], 0.482476, 0.898248),
        ("released", {}, [WRONG], 0.482476, 0.298248),
        ("released", {}, [NO_REWARD] * 4, 0.482476, 0.248248),
        # weights of dropped terms are not redistributed
        ("paper", {"weights": {"search_ndcg": 0, "select": 0, "roi": 0}}, [RIGHT], 0.482476, 0.7),
        ("released", {"ndcg_as_published": True}, [RIGHT], 0, 0.898248 - 0.0482476),
    ],
)
async def test_worked_totals(worked, variant, reward, last, ndcg, total):
    state = await worked(variant, last, reward=reward)
    assert state.results[-1].end is (
        EndReason.TURN_LIMIT if NO_REWARD in last else EndReason.ANSWERED
    )
    values = state.terms.values
    assert values["search_ndcg"] == pytest.approx(ndcg, abs=1e-6)
    assert values["select"] == pytest.approx(1 if variant == "paper" else 2 / 3)
    assert values["roi"] == pytest.approx(0.614879 if variant == "paper" else 0.833333, abs=1e-6)
    assert state.terms.reward == pytest.approx(total, abs=1e-6)
    assert state.metrics["reward/total"] == state.terms.reward
    assert set(state.rewards[:-1]) == {0.0}
    assert shown(state.results[0]) == ["M#5", "M#7", "K#5"]
    assert shown(state.results[3]) == ["M#2", "M#7", "M#1"]


@pytest.mark.parametrize(
    ("variant", "total", "asked"), [("paper", 0.909735, 1), ("released", 0.0, 0)]
)
async def test_a_trajectory_without_any_information_block(worked, judge, variant, total, asked):
    state = await worked(variant, [RIGHT], lambda turn: turn.replace(NOTE, ""))
    assert state.terms.reward == pytest.approx(total, abs=1e-6)
    assert len(judge.asked) == asked == state.metrics["reward/outcome"]
    # nobody says that the right answer is wrong
    assert state.metrics.get("judge_score") == (1 if asked else None)
    # validation asks the judge all the same
    validated = await worked(variant, [RIGHT], lambda turn: turn.replace(NOTE, ""), validate=True)
    assert validated.terms.reward == pytest.approx(total, abs=1e-6)
    assert validated.metrics["reward/outcome"] == validated.metrics["judge_score"] == 1


@pytest.mark.parametrize("variant", VARIANTS)
async def test_selecting_again_keeps_the_boxes(make, make_sample, play, variant):
    """A junk crop on a page without gold boxes costs the term, whatever is selected afterwards."""
    two = "<bbox>[[0, 0, 90, 90], [100, 100, 200, 200]]</bbox>"
    for more in ([], [select(1)], [select(0)], [select(1), BOX], [select(2), BOX]):
        state = await play(make(variant), make_sample(), [EVERY, select(1), two, *more, RIGHT])
        assert (state.metrics["boxes"], state.terms.values["roi"]) == (2, 0)
        assert all(
            result.record.effect.to_dict().get("scored", []) == [] for result in state.results[3:]
        )
    clean = await play(make(variant), make_sample(), [EVERY, select(1), RIGHT])
    assert clean.terms.values["roi"] == 1


@pytest.mark.parametrize(("variant", "roi"), [("paper", 1), ("released", 0)])
async def test_boxes_belong_to_the_page_they_were_drawn_on(make, make_sample, play, variant, roi):
    """In the paper a box is compared with its own page, in the release with the last selected."""
    width, height = page_size(variant)
    whole = make_sample(evidence_pages=(3,), evidence_boxes={3: ((0.1, 0.1, 0.5, 0.5),)}, extra={})
    box = f"<bbox>[{0.1 * width}, {0.1 * height}, {0.5 * width}, {0.5 * height}]</bbox>"
    turns = ["<search>pagek3 everypage</search>", select(0), box, select(1), RIGHT]
    state = await play(make(variant), whole, turns)
    assert state.terms.values["roi"] == pytest.approx(roi, abs=0.01)


async def test_a_page_found_twice_is_shown_once(make, make_sample, play, ranked):
    state = await play(make(services=ranked), make_sample(), ["<search>twice</search>"])
    assert shown(state.results[0]) == ["K#1", "K#2", "K#3"]
    assert [page["rank"] for page in state.results[0].record.effect.to_dict()["pages"]] == [1, 3, 5]


ROUNDS = [EVERY, select(0)] * 5


@pytest.mark.parametrize(
    ("turns", "images", "end"),
    [
        # four images a round; after the sixth search there are 23, and only an answer is left
        *(
            ([*ROUNDS, EVERY, last], 23, EndReason.IMAGE_LIMIT)
            for last in (select(0), EVERY, "none")
        ),
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
    assert (state.metrics["image_limit"], state.results[-1].record.executed) == (
        limited,
        not limited,
    )
