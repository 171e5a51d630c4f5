"""The behaviour that VRAG-RL does not share with UniDoc-RL; `test_page_searchers.py` covers the
rest.
"""

import pytest

from docagent_rl.actions.base import Invalid, InvalidReason, StopCause
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import ImagePart, TextPart
from docagent_rl.systems.vrag_rl.config import VragConfig
from docagent_rl.systems.vrag_rl.env import VragEnv

SEARCH_M7, SEARCH_K4 = "<think>a</think><search>pagem7</search>", "<search>pagek4</search>"
EVERY = "<search>everypage</search>"
RIGHT, WRONG = "<answer>blue</answer>", "<answer>red</answer>"
EXAMPLE = [SEARCH_M7, SEARCH_K4, "<search>pagem1</search>", "<search>pageq2</search>"]
BOX = "<bbox>[100, 100, 300, 200]</bbox>"


def shown(result):
    return [str(image.page) for image in result.observation.images]


async def test_a_search_shows_one_image_and_no_word(make_env, make_sample, play):
    state = await play(make_env(), make_sample(), ["<search>everypage pagek3</search>"])
    (message,) = state.results[0].observation.messages
    assert [type(part) for part in message.parts] == [ImagePart]
    info = state.results[0].record.to_dict()
    (page,) = info["effect"]["pages"]
    assert (page["page"], page["rank"], page["gold"]) == ("K#3", 1, True)
    assert page["score"] > 0
    assert (info["effect"]["hits"], info["action"]["query"]) == (10, "everypage pagek3")
    assert (state.results[0].done, state.rewards) == (False, [0.0])


@pytest.mark.parametrize(
    ("settings", "pages"),
    [
        ({}, [["K#1"], ["K#2"], ["K#3"]]),
        ({"pages_per_search": 2}, [["K#1", "K#2"], ["K#3", "K#4"]]),
        ({"top_k": 2}, [["K#1"], ["K#2"], [], []]),
    ],
)
async def test_a_repeated_search_goes_down_the_ranking(
    make_env, make_sample, play, settings, pages
):
    state = await play(make_env(search=settings), make_sample(), [EVERY] * len(pages))
    assert [shown(result) for result in state.results] == pages
    assert all(result.record.valid for result in state.results)
    metrics = state.metrics
    assert (metrics["pages_seen"], metrics["no_new_page"]) == (
        sum(map(len, pages)),
        pages.count([]),
    )
    assert (metrics["searches"], metrics["invalid_actions"]) == (len(pages), 0)
    ranks = [
        page["rank"]
        for result in state.results
        for page in result.record.effect.to_dict().get("pages", [])
    ]
    assert ranks == list(range(1, len(ranks) + 1))


async def test_a_crop_is_cut_from_the_view_shown_last(make_env, make_sample, play):
    state = await play(
        make_env("released"), make_sample(), [SEARCH_K4, BOX, "<bbox>[0, 0, 100, 100]</bbox>"]
    )
    page, first, second = (result.observation.images[0] for result in state.results)
    assert first.page == second.page == PageRef("K", 4)
    scales = [raw / side for raw, side in zip(page.raster[2:], page.size, strict=True)] * 2
    assert first.raster == tuple(
        int(edge * scale) for edge, scale in zip((100, 100, 300, 200), scales, strict=True)
    )
    # the second box lies in the corner of the first crop, not of the page
    assert second.raster[:2] == first.raster[:2]
    assert second.raster[2] < first.raster[2]
    assert (state.metrics["crops"], state.metrics["pages_seen"]) == (2, 1)
    assert state.results[1].record.effect.to_dict()["raster"] == list(first.raster)


@pytest.mark.parametrize(
    ("variant", "overrides", "totals"),
    [
        ("paper", {}, (0.906144, 0.106144, 0.106144)),
        (
            "paper",
            {"reward": {"alpha": 0.2, "beta": 0.7, "gamma": 0.1}},
            (0.906144, 0.206144, 0.106144),
        ),
        ("released", {}, (0.906144, 0.206144, 0.0)),
    ],
    ids=["paper", "cold start", "released"],
)
async def test_worked_rewards(make_env, make_sample, play, variant, overrides, totals):
    for last, total in zip((RIGHT, WRONG, "no tag"), totals, strict=True):
        state = await play(make_env(variant, **overrides), make_sample(), [*EXAMPLE, last])
        assert state.terms.values["retrieval_ndcg"] == pytest.approx(0.530721, abs=1e-6)
        assert state.rewards == [0.0] * 4 + [pytest.approx(total, abs=1e-6)]
        assert state.metrics["reward/total"] == state.terms.reward
        assert state.metrics["retrieval_recall"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(("variant", "total", "asked"), [("paper", 0.8, 1), ("released", 0.0, 0)])
async def test_an_answer_without_search(make_env, make_sample, play, judge, variant, total, asked):
    state = await play(make_env(variant), make_sample(), [RIGHT])
    assert state.terms.reward == pytest.approx(total)
    assert len(judge.asked) == asked == state.metrics["reward/outcome"]
    # nobody says that the right answer is wrong
    assert state.metrics.get("judge_score") == (1 if asked else None)
    assert state.metrics["finished"] == 1
    assert (state.metrics["invalid_action_rate"], state.metrics["invalid_rate_paper"]) == (0, 1)


async def test_validation_judges_an_answer_without_search_and_rewards_it_no_more(
    services, make_sample, play, judge
):
    """The published score of a validation is `r_fmt * r_ans`, which is the term."""
    env = VragEnv(VragConfig.for_variant("released"), services, validate=True)
    state = await play(env, make_sample(), [RIGHT])
    assert len(judge.asked) == state.metrics["judge_score"] == 1
    assert (state.terms.reward, state.metrics["reward/outcome"]) == (0.0, 0.0)


@pytest.mark.parametrize("turns", [["no tag"] * 5, ["<answer> </answer>"]])
async def test_no_answer_is_wrong_and_not_unjudged(make_env, make_sample, play, judge, turns):
    state = await play(make_env("released"), make_sample(), turns)
    assert (state.metrics["judge_score"], judge.asked) == (0.0, [])


async def test_notice_of_the_last_turn(make_env, make_sample, play):
    env = make_env("paper", max_turns=2, final_turn={"notice": True})
    (result,) = (await play(env, make_sample(), [SEARCH_K4])).results
    assert isinstance(result.observation.messages[0].parts[-1], TextPart)


def grammar_of(**switches):
    return VragEnv.make_grammar(VragConfig.for_variant(grammar=switches))


GRAMMAR = grammar_of()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", InvalidReason.NO_ACTION),
        ("<think>only</think>", InvalidReason.NO_ACTION),
        ("<think><search>a</search>", InvalidReason.NO_ACTION),
        ("<search>a", InvalidReason.UNCLOSED),
        ("<search>a</answer>", InvalidReason.UNCLOSED),
        ("<search>a<think>b</search>", InvalidReason.UNCLOSED),
        ("<search>a<search>b</search>", InvalidReason.NESTED),
        ("<search> \n</search>", InvalidReason.BAD_ARGUMENT),
        ("<search><think>a</think></search>", InvalidReason.BAD_ARGUMENT),
        ("<bbox>[1, 2, 3]</bbox>", InvalidReason.BAD_ARGUMENT),
    ],
)
def test_invalid_turns(text, reason):
    action = GRAMMAR.parse(text).action
    assert isinstance(action, Invalid)
    assert action.reason is reason


def test_how_sampling_ended():
    assert GRAMMAR.parse("<search>a", StopCause.TRUNCATED).action.reason is InvalidReason.TRUNCATED
    assert GRAMMAR.parse("<search>a</search> and the", StopCause.TRUNCATED).action.query == "a"
    whole = GRAMMAR.parse("<search>a</search>", StopCause.CONTROL_TOKEN)
    assert whole.action.reason is InvalidReason.CONTROL_TOKEN


def test_region_alias():
    grammar = grammar_of(region_alias=True)
    for tag in ("region", "bbox"):
        assert grammar.parse(f"<{tag}>[1,2,3,4]</{tag}>").action.boxes == ((1, 2, 3, 4),)
    assert grammar.parse("<region>[1,2,3,4]</bbox>").action.reason is InvalidReason.UNCLOSED
