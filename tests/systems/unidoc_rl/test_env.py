from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.envs.base import EndReason, ImagePart, ImageSheet, Role, TextPart
from docagent_rl.envs.delivery import render
from docagent_rl.envs.services import RetrieverService
from docagent_rl.errors import UserError
from docagent_rl.retrieval import Retriever
from docagent_rl.systems.unidoc_rl.config import UniDocConfig
from docagent_rl.systems.unidoc_rl.system import SYSTEM

EVERY = "<think>a</think><search>everypage</search>"
NOTE = "<information>it says blue</information>"
RIGHT = f"{NOTE}<answer>blue</answer>"
BOX = "<bbox>[[100, 100, 300, 200]]</bbox>"
VARIANTS = ["paper", "released"]


def search(*pages):
    return f"<search>{' '.join(f'page{page.lower()}' for page in pages)}</search>"


def select(index):
    return f"<think>that one</think><select>{index}</select>"


def texts(result):
    return [part.text for part in result.observation.messages[0].parts if isinstance(part, TextPart)]


def shown(result):
    return [str(page) for image in result.observation.images for page in image.pages]


def page_size(variant):
    """How large pages of this corpus are shown."""
    return UniDocConfig.for_variant(variant).display.shown((1733, 1226))


@pytest.mark.parametrize("variant", VARIANTS)
async def test_the_start_is_one_user_message(make, record, variant):
    prompt = await make(variant).reset(record())
    (message,) = prompt.messages
    assert message.role is Role.USER
    assert prompt.images == ()
    text = message.parts[0].text
    assert text.endswith("Question: What is the answer?")
    assert f"at most {10 if variant == 'paper' else 11}" in text
    assert "K" not in text.split()


async def test_a_search_shows_labelled_candidates(make, record, play):
    episode = await play(make(), record(), [EVERY])
    (message,) = episode.results[0].observation.messages
    assert message.role is Role.USER
    assert [type(part) for part in message.parts] == [TextPart, ImagePart] * 3
    lead, first = texts(episode.results[0])[0].split("\n")
    assert "candidates" in lead
    assert [first, *texts(episode.results[0])[1:]] == ["Image 0: ", "\nImage 1: ", "\nImage 2: "]
    assert shown(episode.results[0]) == ["K#1", "K#2", "K#3"]
    effect = episode.results[0].info["effect"]
    assert (effect["kind"], effect["hits"]) == ("candidates", 10)
    assert [(p["page"], p["rank"], p["gold"]) for p in effect["pages"]] == [
        ("K#1", 1, False),
        ("K#2", 2, False),
        ("K#3", 3, True),
    ]
    assert episode.rewards == [0.0]


async def test_a_selection_shows_the_page_again_at_the_same_size(make, record, play):
    episode = await play(make(), record(), [EVERY, select(2)])
    candidates, (page,) = (result.observation.images for result in episode.results)
    assert page.key == candidates[2].key
    assert texts(episode.results[1]) == ["This is the page you selected.\n"]
    effect = episode.results[1].info["effect"]
    assert (effect["kind"], effect["index"], effect["page"], effect["gold"], effect["fallback"]) == (
        "selection",
        2,
        "K#3",
        True,
        False,
    )
    metrics = episode.metrics
    assert (metrics["selections"], metrics["images"], metrics["pages_seen"]) == (1, 4, 3)
    # the page costs its tokens a second time
    assert metrics["image_tokens"] == 4 * effect["tokens"]
    assert (
        metrics["retrieval_recall"],
        metrics["recall_first"],
        metrics["recall_selected"],
    ) == pytest.approx((1 / 3, 0, 1 / 3))


async def test_only_selected_pages_are_left_out_of_later_searches(make, record, play):
    episode = await play(make(), record(), [EVERY, select(1), EVERY, EVERY])
    assert shown(episode.results[2]) == ["K#1", "K#3", "K#4"]
    # the paper's search without a selection leaves nothing out
    assert shown(episode.results[3]) == shown(episode.results[2])


async def test_in_the_release_the_first_candidate_counts_as_selected(make, record, play):
    episode = await play(make("released"), record(), [EVERY, EVERY, select(2), EVERY])
    assert shown(episode.results[1]) == ["K#2", "K#3", "K#4"]
    # K2 was selected only until K4 was
    assert shown(episode.results[3]) == ["K#2", "K#3", "K#5"]


async def test_a_selection_can_be_changed(make, record, play):
    episode = await play(make(), record(), [EVERY, select(0), select(2), EVERY])
    assert shown(episode.results[2]) == ["K#3"]
    assert shown(episode.results[3]) == ["K#1", "K#2", "K#4"]
    assert episode.metrics["selections"] == 2
    assert episode.metrics["recall_selected"] == pytest.approx(1 / 3)


async def test_nothing_new(make, record, play):
    env = make(search={"top_k": 1, "candidates": 1})
    episode = await play(
        env, record(), [EVERY, select(0), EVERY, "<search>unheardof</search>", select(0), BOX]
    )
    for result in episode.results[2:4]:
        assert result.observation.images == ()
        assert result.info["valid"]
    # the candidates of the search before are still pending
    assert shown(episode.results[4]) == ["K#1"]
    metrics = episode.metrics
    assert (metrics["searches"], metrics["no_new_page"], metrics["invalid_actions"]) == (3, 2, 0)
    assert metrics["reward/select"] == 0
    terms = await env.conclude(EndReason.CONTEXT_FULL)
    assert terms.values["select"] == 1


async def test_exclude_selected_reaches_beyond_the_ranking(make, record, play):
    env = make(search={"top_k": 1, "candidates": 1, "exclude_selected": True})
    episode = await play(env, record(), [EVERY, select(0), EVERY])
    assert shown(episode.results[2]) == ["K#2"]


@dataclass
class Stuttering:
    """A retriever that names every page twice."""

    retriever: Retriever

    def search(self, queries, **arguments):
        return [
            [hit for hit in hits for _ in range(2)] for hits in self.retriever.search(queries, **arguments)
        ]


async def test_a_retriever_that_repeats_itself(make, record, play, services, retriever):
    stuttering = replace(services, retriever=RetrieverService(Stuttering(retriever)))
    episode = await play(make(services=stuttering), record(), [EVERY])
    assert shown(episode.results[0]) == ["K#1", "K#2", "K#3"]
    assert [page["rank"] for page in episode.results[0].info["effect"]["pages"]] == [1, 3, 5]


async def test_scope(make, record, play):
    inside = await play(make(search={"scope": "document"}), record(), [search("M7")])
    assert inside.results[0].info["effect"]["kind"] == "no_new_page"


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("turn", [select(0), "<select>x</select>"])
async def test_there_is_nothing_to_select_before_a_search(make, record, play, variant, turn):
    episode = await play(make(variant), record(), [turn])
    assert (episode.results[0].info["valid"], episode.results[0].info["reason"]) == (False, "bad_argument")
    assert episode.metrics["selections"] == episode.metrics["select_fallbacks"] == 0


@pytest.mark.parametrize("index", [3, "one"])
async def test_indices_without_a_candidate(make, record, play, index):
    paper = await play(make(), record(), [EVERY, select(index)])
    assert not paper.results[1].info["valid"]
    assert "index" in texts(paper.results[1])[0]
    assert paper.metrics["selections"] == 0
    released = await play(make("released"), record(), [EVERY, select(index)])
    assert shown(released.results[1]) == ["K#1"]
    assert released.results[1].info["effect"]["fallback"]
    metrics = released.metrics
    assert (metrics["select_fallbacks"], metrics["selections"], metrics["invalid_actions"]) == (1, 1, 0)


async def test_crops_are_stacked_from_the_selected_page(make, record, play, store):
    boxes = "<bbox>[[100, 100, 300, 200], [400, 300, 500, 500]]</bbox>"
    episode = await play(make("released"), record(), [EVERY, select(1), boxes])
    (sheet,) = episode.results[2].observation.images
    assert isinstance(sheet, ImageSheet)
    assert sheet.pages == (PageRef("K", 2),)
    assert sheet.background == (0, 0, 0)
    assert len(sheet.tiles) == 2
    assert render(sheet, store).size == sheet.size
    effect = episode.results[2].info["effect"]
    assert effect["rasters"] == [list(tile.image.raster) for tile in sheet.tiles]
    width, height = page_size("released")
    assert effect["scored"][0] == pytest.approx([100 / width, 100 / height, 300 / width, 200 / height])
    metrics = episode.metrics
    assert (metrics["crops"], metrics["boxes"], metrics["images"]) == (1, 2, 5)


async def test_boxes_on_stacked_crops_are_cut_and_not_scored(make, record, play):
    episode = await play(
        make("released"), record(), [EVERY, select(1), BOX, "<bbox>[0, 0, 50, 50]</bbox>", BOX]
    )
    first, second = (episode.results[n].info["effect"] for n in (2, 3))
    assert second["rasters"][0][:2] == first["rasters"][0][:2]
    assert second["rasters"][0][2] < first["rasters"][0][2]
    assert second["scored"] == episode.results[4].info["effect"]["scored"] == []
    assert (episode.metrics["crops"], episode.metrics["boxes"]) == (3, 1)


@pytest.mark.parametrize("variant", VARIANTS)
async def test_selecting_again_keeps_the_boxes(make, record, play, variant):
    """A junk crop on a page without gold boxes costs the term, whatever is selected afterwards."""
    two = "<bbox>[[0, 0, 90, 90], [100, 100, 200, 200]]</bbox>"
    turns = [EVERY, select(1), two]
    last = "<information>seen</information><answer>blue</answer>"
    for more in ([], [select(1)], [select(0)], [select(1), BOX], [select(2), BOX]):
        episode = await play(make(variant), record(), [*turns, *more, last])
        assert episode.metrics["boxes"] == 2
        assert episode.terms.values["roi"] == 0
        assert all(r.info["effect"]["scored"] == [] for r in episode.results[4:5] if len(more) == 2)
    clean = await play(make(variant), record(), [EVERY, select(1), last])
    assert clean.terms.values["roi"] == 1


async def test_boxes_belong_to_the_page_they_were_drawn_on(make, record, play):
    """As published a box is held against its own page; as released against the page selected last."""
    width, height = page_size("paper")
    whole = record(evidence_pages=(3,), evidence_boxes={3: ((0.1, 0.1, 0.5, 0.5),)}, extra={})
    box = f"<bbox>[{0.1 * width}, {0.1 * height}, {0.5 * width}, {0.5 * height}]</bbox>"
    turns = ["<search>pagek3 everypage</search>", select(0), box, select(1), "<answer>blue</answer>"]
    assert (await play(make(), whole, turns)).terms.values["roi"] == pytest.approx(1, abs=0.01)
    assert (await play(make("released"), whole, turns)).terms.values["roi"] == 0


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("first", "box", "clause"),
    [
        ([], BOX, "page"),
        ([EVERY], BOX, "search"),
        ([EVERY, select(0), EVERY], BOX, "search"),
        ([EVERY, select(0)], "<bbox>[[9000, 9000, 9900, 9900]]</bbox>", "box 1"),
        ([EVERY, select(0)], "<bbox>[[0, 0, 9, 9], [0, -5, 9, -1]]</bbox>", "box 2"),
        ([EVERY, select(0)], "<bbox>[[0, 100, 700, 100.5]]</bbox>", "200"),
        ([EVERY, select(0)], "<bbox>[[1, 2, 3]]</bbox>", "[[x1, y1, x2, y2], ...]"),
    ],
)
async def test_boxes_that_cannot_be_cut(make, record, play, variant, first, box, clause):
    episode = await play(make(variant), record(), [*first, box])
    result = episode.results[-1]
    assert clause in texts(result)[0]
    assert result.observation.images == ()
    assert (result.info["valid"], result.info["executed"]) == (False, False)
    before = await play(make(variant), record(), first)
    assert episode.metrics["boxes"] == before.metrics["boxes"]
    assert episode.metrics["crops"] == before.metrics["crops"]


async def test_an_empty_search_or_a_fault_leaves_the_page_in_place(make, record, play):
    turns = [EVERY, select(0), "<search>unheardof</search>", "none", BOX]
    episode = await play(make(), record(), turns)
    assert episode.results[-1].info["effect"]["kind"] == "crop"


async def test_feedback_restates_what_is_needed(make, record, play):
    episode = await play(make(), record(), ["none", "<bbox>[]</bbox>", "<search> </search>", NOTE])
    said = [texts(result)[0] for result in episode.results]
    assert ["[[x1, y1, x2, y2], ...]" in text for text in said] == [False, True, False, False]
    # a note alone is no action
    assert [result.info["reason"] for result in episode.results] == [
        "no_action",
        "bad_argument",
        "bad_argument",
        "no_action",
    ]


async def test_surplus_actions_are_counted_and_not_executed(make, record, play):
    episode = await play(make(), record(), [f"{EVERY}<select>0</select>{RIGHT}"])
    assert len(shown(episode.results[0])) == 3
    assert episode.metrics["surplus_actions"] == 2
    assert episode.metrics["selections"] == 0


async def test_without_selection(make, record, play):
    """Each search shows the best page that was not shown, which can be magnified at once."""
    env = make(grammar={"select": False})
    episode = await play(env, record(), [EVERY, BOX, EVERY, BOX, select(0), RIGHT])
    assert [shown(episode.results[n]) for n in (0, 2)] == [["K#1"], ["K#2"]]
    assert [type(p) for p in episode.results[0].observation.messages[0].parts] == [TextPart, ImagePart]
    assert [episode.results[n].info["effect"]["kind"] for n in (1, 3)] == ["crop", "crop"]
    assert episode.results[4].info["reason"] == "no_action"
    said = episode.prompt.messages[0].parts[0].text + "".join(
        texts(episode.results[4]) + texts(episode.results[0])
    )
    assert "select" not in said.lower()
    assert "candidate" not in said
    assert (episode.metrics["boxes"], episode.metrics["pages_seen"]) == (2, 2)
    released = await play(make("released", grammar={"select": False}), record(), [EVERY, RIGHT])
    assert released.terms.values["format"] == 1


async def test_without_crop(make, record, play):
    episode = await play(make(grammar={"crop": False}), record(), [EVERY, select(0), BOX])
    assert episode.results[2].info["reason"] == "no_action"
    said = episode.prompt.messages[0].parts[0].text + texts(episode.results[2])[0]
    assert "bbox" not in said
    assert "magnif" not in said
    assert "boxes" not in said


async def test_padding_of_the_validation(make, record, play):
    turns = [EVERY, select(0), BOX]
    plain = await play(make("released", crop={"pad_val": 28}), record(), turns)
    padded = await play(make("released", crop={"pad_val": 28}, validate=True), record(), turns)
    (a,), (b,) = (episode.results[2].info["effect"]["rasters"] for episode in (plain, padded))
    assert b[0] < a[0] < a[2] < b[2]
    scored = [episode.results[2].info["effect"]["scored"] for episode in (plain, padded)]
    assert scored[0] == scored[1]


async def test_samples_that_cannot_be_played(make, record):
    with pytest.raises(UserError, match=r"'q1'.*evidence_boxes"):
        await make().reset(record(evidence_boxes={3: ((100.0, 100.0, 900.0, 900.0),)}))


async def test_the_system(services, record, play):
    unidoc = SYSTEM
    assert unidoc.name == "unidoc_rl"
    config = unidoc.parse_config({"variant": "released", "max_turns": 4})
    assert (unidoc.max_turns(config), unidoc.max_images(config)) == (5, 12)
    assert unidoc.make_grammar(config).tags == ("search", "select", "bbox", "answer")
    episode = await play(unidoc.make_env(config, services), record(), [EVERY, select(0), RIGHT])
    assert episode.metrics["finished"] == 1
    with pytest.raises(UserError, match=r"docagent\.env\.search\.candidate"):
        unidoc.parse_config({"search": {"candidate": 1}})
