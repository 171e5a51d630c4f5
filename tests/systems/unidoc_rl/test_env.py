"""What UniDoc-RL shows; `test_page_searchers.py` has what it shares with VRAG-RL."""

from __future__ import annotations

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.envs.base import EndReason, ImagePart, TextPart
from docagent_rl.envs.delivery import render
from docagent_rl.envs.images import ImageSheet
from tests.systems.unidoc_rl.play import BOX, EVERY, NOTE, RIGHT, select, shown

NOTHING, FIRST_OF_ONE = "<search>unheardof</search>", {"top_k": 1, "candidates": 1}


def texts(result):
    return [part.text for part in result.observation.messages[0].parts if isinstance(part, TextPart)]


async def test_a_search_shows_labelled_candidates(make, make_sample, play):
    state = await play(make(), make_sample(), [EVERY])
    (message,) = state.results[0].observation.messages
    assert [type(part) for part in message.parts] == [TextPart, ImagePart] * 3
    labels = [text.split("\n")[-1] for text in texts(state.results[0])]
    assert labels == ["Image 0: ", "Image 1: ", "Image 2: "]
    effect = state.results[0].info["effect"]
    assert (effect["kind"], effect["hits"]) == ("candidates", 10)
    pages = [(page["page"], page["rank"], page["gold"]) for page in effect["pages"]]
    assert pages == [("K#1", 1, False), ("K#2", 2, False), ("K#3", 3, True)]
    assert shown(state.results[0]) == ["K#1", "K#2", "K#3"]


async def test_a_selection_shows_the_page_again_at_the_same_size(make, make_sample, play):
    state = await play(make(), make_sample(), [EVERY, select(2)])
    candidates, (page,) = (result.observation.images for result in state.results)
    assert page.key == candidates[2].key
    effect, metrics = state.results[1].info["effect"], state.metrics
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
        ("paper", {}, [EVERY, select(0), select(2), EVERY], [1, 2, 4]),
        ("paper", {"search": {**FIRST_OF_ONE, "exclude_selected": True}}, [EVERY, select(0), EVERY], [2]),
    ],
)
async def test_selected_pages_are_left_out_of_later_searches(
    make, make_sample, play, variant, settings, turns, pages
):
    state = await play(make(variant, **settings), make_sample(), turns)
    assert shown(state.results[-1]) == [f"K#{page}" for page in pages]
    assert state.metrics["selections"] == sum("<select>" in turn for turn in turns)


async def test_nothing_new(make, make_sample, play):
    """An empty search or a fault leaves the page in place, and the candidates of the search before."""
    env = make(search=FIRST_OF_ONE)
    turns = [EVERY, select(0), EVERY, NOTHING, "none", BOX, select(0), BOX]
    state = await play(env, make_sample(), turns)
    for result in state.results[2:4]:
        assert (result.observation.images, result.info["valid"]) == ((), True)
    assert state.results[5].info["effect"]["kind"] == "crop"
    assert shown(state.results[6]) == ["K#1"]
    metrics = state.metrics
    assert (metrics["searches"], metrics["no_new_page"], metrics["invalid_actions"]) == (3, 2, 1)
    assert metrics["reward/select"] == 0
    assert (await env.conclude(EndReason.CONTEXT_FULL)).values["select"] == 1


@pytest.mark.parametrize(
    ("variant", "turns", "fallbacks"),
    [
        ("paper", [select(0)], 0),
        ("released", [select(0)], 0),
        ("paper", [EVERY, select(3)], 0),
        ("paper", [EVERY, select("one")], 0),
        ("released", [EVERY, select(3)], 1),
        ("released", [EVERY, select("one")], 1),
    ],
)
async def test_indices_without_a_candidate(make, make_sample, play, variant, turns, fallbacks):
    """As released they stand for the first candidate of the last search, if there was one."""
    state = await play(make(variant), make_sample(), turns)
    result, metrics = state.results[-1], state.metrics
    assert (result.info["valid"], result.info["effect"].get("fallback")) == (
        bool(fallbacks),
        fallbacks or None,
    )
    assert shown(result) == ["K#1"] * fallbacks
    assert metrics["select_fallbacks"] == metrics["selections"] == 1 - metrics["invalid_actions"] == fallbacks


async def test_crops_are_stacked_from_the_selected_page(make, make_sample, play, store):
    """Boxes on a stack are cut and not scored."""
    boxes = "<bbox>[[100, 100, 300, 200], [400, 300, 500, 500]]</bbox>"
    turns = [EVERY, select(1), boxes, "<bbox>[0, 0, 50, 50]</bbox>", BOX]
    state = await play(make("released"), make_sample(), turns)
    (sheet,) = state.results[2].observation.images
    assert isinstance(sheet, ImageSheet)
    assert (sheet.pages, sheet.background) == ((PageRef("K", 2),), (0, 0, 0))
    assert render(sheet, store).size == sheet.size
    first, second, third = (result.info["effect"] for result in state.results[2:])
    assert first["rasters"] == [list(tile.image.raster) for tile in sheet.tiles]
    width, height = state.results[1].observation.images[0].size
    assert first["scored"][0] == pytest.approx([100 / width, 100 / height, 300 / width, 200 / height])
    assert second["rasters"][0][:2] == first["rasters"][0][:2]
    assert second["rasters"][0][2] < first["rasters"][0][2]
    assert second["scored"] == third["scored"] == []
    metrics = state.metrics
    assert (metrics["crops"], metrics["boxes"], metrics["images"]) == (3, 2, 7)


@pytest.mark.parametrize(
    ("turns", "clause"),
    [
        ([EVERY, BOX], "search"),
        ([EVERY, select(0), EVERY, BOX], "search"),
        ([EVERY, select(0), "<bbox>[[0, 0, 9, 9], [0, -5, 9, -1]]</bbox>"], "box 2"),
        ([EVERY, select(0), "<bbox>[]</bbox>"], "[[x1, y1, x2, y2], ...]"),
        # not about boxes; a note alone is no action
        ([NOTE], None),
    ],
)
async def test_feedback_restates_what_is_needed(make, make_sample, play, turns, clause):
    result = (await play(make(), make_sample(), turns)).results[-1]
    assert (result.info["valid"], result.info["executed"]) == (False, False)
    assert (clause or "Think") in texts(result)[0]
    assert ("[[x1, y1, x2, y2], ...]" in texts(result)[0]) == ("<bbox>" in turns[-1])


async def test_without_selection(make, make_sample, play):
    """Each search shows the best page that was not shown, which can be magnified at once."""
    env = make(grammar={"select": False})
    state = await play(env, make_sample(), [EVERY, BOX, EVERY, BOX, select(0), RIGHT])
    assert [shown(state.results[n]) for n in (0, 2)] == [["K#1"], ["K#2"]]
    assert [state.results[n].info["effect"]["kind"] for n in (1, 3)] == ["crop", "crop"]
    assert state.results[4].info["reason"] == "no_action"
    told = [state.prompt.messages[0].parts[0].text, texts(state.results[4])[0]]
    assert [text for text in told if "select" in text.lower() or "candidate" in text] == []
    assert (state.metrics["boxes"], state.metrics["pages_seen"]) == (2, 2)
    released = await play(make("released", grammar={"select": False}), make_sample(), [EVERY, RIGHT])
    assert released.terms.values["format"] == 1
