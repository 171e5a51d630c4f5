"""How episodes of UniDoc-RL end and what they are paid."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.envs.base import EndReason
from docagent_rl.envs.services import RetrieverService
from docagent_rl.errors import UserError
from docagent_rl.retrieval import Hit
from docagent_rl.systems.unidoc_rl.config import UniDocConfig

EVERY = "<think>a</think><search>everypage</search>"
NOTE = "<information>it says blue</information>"
RIGHT, WRONG = f"{NOTE}<answer>blue</answer>", f"{NOTE}<answer>red</answer>"
NOTHING = "<search>none</search>"
BOX = "<bbox>[[100, 100, 300, 200]]</bbox>"
VARIANTS = ["paper", "released"]


def select(index):
    return f"<think>that one</think><select>{index}</select>"


def shown(result):
    return [str(page) for image in result.observation.images for page in image.pages]


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
}


def page_size(variant):
    """How large pages of this corpus are shown."""
    return UniDocConfig.for_variant(variant).display.shown((1733, 1226))


@pytest.fixture
def ranked(services):
    return replace(services, retriever=RetrieverService(Ranking(RANKINGS)))


@pytest.fixture
def worked(record):
    """The record and the turns of sections 14.1 and 14.2; boxes scaled to the page at hand."""
    boxes = {5: ((0.12, 0.15, 0.52, 0.46), (0.56, 0.48, 0.94, 0.6))}
    sample = record(
        evidence_pages=(5,),
        evidence_boxes=boxes,
        extra={"page_ids": ["K#5", "M#7"], "crop_required": {"5": True}},
    )

    def turns(size, last):
        drawn = [[66, 118, 274, 331], [352, 400, 498, 480]]
        scaled = [
            [x * size[0] / 532 if i % 2 == 0 else x * size[1] / 753 for i, x in enumerate(b)] for b in drawn
        ]
        yield "<think>a</think><search>one</search>"
        yield select(2)
        yield f"<think>closer</think><bbox>{scaled}</bbox>"
        yield f"<think>b</think>{NOTE}<think>c</think><search>two</search>"
        yield select(1)
        yield "<search>three</search>"
        yield select(0)
        yield from last

    return sample, turns


@pytest.mark.parametrize(
    ("variant", "last", "total"),
    [
        ("paper", [RIGHT], 0.909735),
        ("paper", [WRONG], 0.309735),
        ("paper", [NOTHING] * 3, 0.209735),
        ("released", [RIGHT], 0.898248),
        ("released", [WRONG], 0.298248),
        ("released", [NOTHING] * 4, 0.248248),
    ],
)
async def test_worked_totals(make, play, worked, ranked, variant, last, total):
    sample, turns = worked
    env = make(variant, services=ranked)
    script = [*turns(page_size(variant), [])]
    script += last
    episode = await play(env, sample, script)
    assert episode.results[-1].end is (EndReason.TURN_LIMIT if NOTHING in last else EndReason.ANSWERED)
    values = episode.terms.values
    assert values["search_ndcg"] == pytest.approx(0.482476, abs=1e-6)
    assert values["select"] == pytest.approx(1 if variant == "paper" else 2 / 3)
    assert values["roi"] == pytest.approx(0.614879 if variant == "paper" else 0.833333, abs=1e-6)
    assert episode.terms.reward == pytest.approx(total, abs=1e-6)
    assert episode.metrics["reward/total"] == episode.terms.reward
    assert set(episode.rewards[:-1]) == {0.0}
    assert [shown(result) for result in episode.results[:4:3]] == [
        ["M#5", "M#7", "K#5"],
        ["M#2", "M#7", "M#1"],
    ]


@pytest.mark.parametrize(("variant", "total", "asked"), [("paper", 0.909735, 1), ("released", 0.0, 0)])
async def test_an_episode_without_any_information_block(
    make, play, worked, ranked, judge, variant, total, asked
):
    sample, turns = worked
    env = make(variant, services=ranked)
    script = [turn.replace(NOTE, "") for turn in turns(page_size(variant), [RIGHT])]
    episode = await play(env, sample, script)
    assert episode.terms.reward == pytest.approx(total, abs=1e-6)
    assert len(judge.asked) == asked
    validated = await play(make(variant, services=ranked, validate=True), sample, script)
    assert validated.terms.reward == pytest.approx(total, abs=1e-6)
    assert validated.metrics["reward/outcome"] == 1


async def test_a_missing_selection(make, play, worked, ranked):
    """14.1 without the third select tag."""
    sample, turns = worked
    for variant in VARIANTS:
        env = make(variant, services=ranked)
        script = [turn for turn in turns(page_size(variant), [RIGHT]) if turn != select(0)]
        episode = await play(env, sample, script)
        assert episode.terms.values["select"] == pytest.approx(2 / 3)


async def test_ndcg_as_published(make, play, worked, ranked):
    sample, turns = worked
    env = make("released", services=ranked, reward={"ndcg_as_published": True})
    episode = await play(env, sample, turns(page_size("released"), [RIGHT]))
    assert episode.terms.values["search_ndcg"] == 0
    assert episode.terms.reward == pytest.approx(0.898248 - 0.0482476, abs=1e-6)


@pytest.mark.parametrize(
    ("last", "value"),
    [
        (RIGHT, 1),
        ("<answer>blue</answer>", 0),
        ("<think><information>a</information></think><answer>blue</answer>", 0),
        ("<information> </information><answer>blue</answer>", 0),
        ("<information>a<answer>blue</answer>", 0),
    ],
)
async def test_the_released_format_needs_a_note_outside_of_thoughts(make, record, play, last, value):
    episode = await play(make("released"), record(), [EVERY, select(0), last])
    assert episode.results[-1].end is EndReason.ANSWERED
    assert episode.terms.values["format"] == value
    assert episode.metrics["informed_turns"] == value


@pytest.mark.parametrize(
    ("turns", "released", "paper", "graded"),
    [
        ([EVERY, select(0), RIGHT], 1, 1, 1),
        ([EVERY, RIGHT], 0, 1, 1),
        ([RIGHT], 0, 1, 1),
        ([EVERY, select(0), "none", RIGHT], 1, 0, 0.75),
        ([EVERY, select(0), f"{NOTE}{EVERY}", *["none"] * 8], 0.5, 0, None),
    ],
)
async def test_formats(make, record, play, turns, released, paper, graded):
    for variant, value in (("released", released), ("paper", paper)):
        assert (await play(make(variant), record(), turns)).terms.values["format"] == value
    if graded is not None:
        episode = await play(make(format={"mode": "graded"}), record(), turns)
        assert episode.terms.values["format"] == graded


@pytest.mark.parametrize("variant", VARIANTS)
async def test_an_empty_answer_ends_and_is_not_judged(make, record, play, judge, variant):
    turns = [EVERY, select(0), f"{NOTE}<answer> \n</answer>"]
    episode = await play(make(variant, validate=True), record(), turns)
    assert episode.results[-1].end is EndReason.ANSWERED
    assert judge.asked == []
    assert (episode.metrics["reward/outcome"], episode.metrics["reward/format"]) == (0, 1)


@pytest.mark.parametrize(("variant", "turns"), [("paper", 10), ("released", 11)])
async def test_the_last_turn_is_only_read_for_an_answer(make, record, play, variant, turns):
    episode = await play(make(variant), record(), [EVERY, *["none"] * (turns - 2), EVERY, "never played"])
    assert len(episode.results) == turns
    last = episode.results[-1]
    assert (last.end, last.info["executed"]) == (EndReason.TURN_LIMIT, False)
    assert episode.metrics["searches"] == 1
    answered = await play(make(variant), record(), [*["none"] * (turns - 1), RIGHT])
    assert answered.results[-1].end is EndReason.ANSWERED


def rounds_of_images(rounds):
    return [turn for _ in range(rounds) for turn in (EVERY, select(0))]


@pytest.mark.parametrize("last", [select(0), EVERY, "none", BOX])
async def test_image_limit(make, record, play, last):
    """Four images a round; after the sixth search there are 23, and only an answer is left."""
    episode = await play(make(max_turns=30), record(), [*rounds_of_images(5), EVERY, last])
    assert episode.metrics["images"] == 23
    assert episode.results[-1].end is EndReason.IMAGE_LIMIT
    assert episode.metrics["image_limit"] == 1
    assert not episode.results[-1].info["executed"]
    answered = await play(make(max_turns=30), record(), [*rounds_of_images(5), EVERY, RIGHT])
    assert answered.results[-1].end is EndReason.ANSWERED


async def test_at_22_images_the_next_search_still_runs(make, record, play):
    script = [*rounds_of_images(5), BOX, BOX, EVERY, EVERY]
    episode = await play(make(max_turns=30), record(), script)
    assert episode.metrics["images"] == 25 == UniDocConfig(max_turns=30).max_images
    assert episode.results[-1].end is EndReason.IMAGE_LIMIT


@pytest.mark.parametrize("variant", VARIANTS)
async def test_a_turn_that_did_not_fit_has_led_to_nothing(make, record, play, variant):
    """Played to the end but for the last observation, an episode scores as if that turn had done nothing."""
    gold = record(evidence_boxes={3: ((0.1, 0.1, 0.4, 0.4),)})
    script = [EVERY, select(2), BOX, f"{NOTE}{EVERY}", select(1), BOX]
    for cut in range(1, len(script) + 1):
        dropped = await play(make(variant), gold, script[:cut], drop_last=True)
        # the same turns, the last of them a fault
        faulty = [*script[: cut - 1], re.sub("<(search|select|bbox)>", "", script[cut - 1])]
        without = await play(make(variant), gold, faulty)
        terms = await without.env.conclude(EndReason.CONTEXT_FULL)
        for name in ("search_ndcg", "select", "roi", "format", "outcome", "total"):
            assert dropped.terms.values[name] == terms.values[name]
        for name in ("images", "pages_seen", "boxes", "selections", "searches", "crops", "image_tokens"):
            assert dropped.metrics[name] == without.metrics[name]
        assert dropped.metrics["context_full"] == 1


@pytest.mark.parametrize("variant", VARIANTS)
async def test_free_text_earns_nothing(make, record, play, judge, variant):
    """Feedback must not be mistaken for what the policy wrote."""
    episode = await play(make(variant), record(), ["I would search, select, note and answer."] * 11)
    assert episode.metrics["invalid_actions"] == len(episode.results)
    assert episode.terms.reward == 0
    assert judge.asked == []


async def test_unanswerable_questions(make, record, play):
    sample = record(answers=(), answerable=False, extra={}, evidence_pages=())
    with pytest.raises(UserError, match="'q1'"):
        await make().reset(sample)
    episode = await play(
        make(allow_empty_gold=True), sample, [EVERY, select(0), "<answer>Not answerable</answer>"]
    )
    assert episode.terms.values == pytest.approx(
        {"search_ndcg": 0, "select": 1, "roi": 1, "format": 1, "outcome": 1, "total": 0.9}
    )
