from __future__ import annotations

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.envs.base import EndReason, ImagePart, Role, TextPart
from docagent_rl.errors import UserError

SEARCH_M7, SEARCH_K4 = "<think>a</think><search>pagem7</search>", "<search>pagek4</search>"
SEARCH_M1, SEARCH_Q2 = "<search>pagem1</search>", "<search>pageq2</search>"
RIGHT, WRONG = "<answer>blue</answer>", "<answer>red</answer>"
BOX = "<bbox>[100, 100, 300, 200]</bbox>"
EXAMPLE = [SEARCH_M7, SEARCH_K4, SEARCH_M1, SEARCH_Q2]


def texts(observation):
    return [part.text for part in observation.messages[0].parts if isinstance(part, TextPart)]


def shown(result):
    return [str(image.page) for image in result.observation.images]


async def test_the_paper_starts_with_a_system_and_a_user_message(make_env, record):
    prompt = await make_env().reset(record())
    assert [message.role for message in prompt.messages] == [Role.SYSTEM, Role.USER]
    assert prompt.images == ()
    assert "What is the answer?" in prompt.messages[1].parts[0].text
    assert "K" not in prompt.messages[1].parts[0].text.split()


async def test_the_release_starts_with_one_user_message(make_env, record):
    prompt = await make_env("released").reset(record())
    assert [message.role for message in prompt.messages] == [Role.USER]
    assert prompt.messages[0].parts[0].text.endswith("Question: What is the answer?")


async def test_a_search_shows_one_image_and_no_word(make_env, record, play):
    episode = await play(make_env(), record(), ["<search>everypage pagek3</search>"])
    (message,) = episode.results[0].observation.messages
    assert message.role is Role.USER
    assert [type(part) for part in message.parts] == [ImagePart]
    info = episode.results[0].info
    page = info["effect"]["pages"][0]
    assert (page["page"], page["rank"], page["gold"]) == ("K#3", 1, True)
    assert page["score"] > 0
    assert info["effect"]["hits"] == 10
    assert info["action"]["query"] == "everypage pagek3"
    assert not episode.results[0].done
    assert episode.rewards == [0.0]


async def test_a_repeated_search_goes_down_the_ranking(make_env, record, play):
    episode = await play(make_env(), record(), ["<search>everypage</search>"] * 4)
    assert [shown(result) for result in episode.results] == [["K#1"], ["K#2"], ["K#3"], ["K#4"]]
    assert [result.info["effect"]["pages"][0]["rank"] for result in episode.results] == [1, 2, 3, 4]


async def test_nothing_new(make_env, record, play):
    env = make_env(search={"top_k": 2})
    turns = ["<search>everypage</search>"] * 3 + ["<search>unheardof</search>"]
    episode = await play(env, record(), turns)
    for result in episode.results[2:]:
        assert result.observation.images == ()
        assert result.info["valid"]
    assert episode.metrics["no_new_page"] == 2
    assert episode.metrics["invalid_actions"] == 0
    assert episode.metrics["searches"] == 4
    assert episode.metrics["pages_seen"] == 2


async def test_exclude_shown_reaches_beyond_the_ranking(make_env, record, play):
    env = make_env(search={"top_k": 1, "exclude_shown": True})
    episode = await play(env, record(), ["<search>everypage</search>"] * 3)
    assert [shown(result) for result in episode.results] == [["K#1"], ["K#2"], ["K#3"]]


async def test_pages_per_search(make_env, record, play):
    env = make_env(search={"pages_per_search": 2})
    episode = await play(env, record(), ["<search>everypage</search>"] * 2)
    assert [shown(result) for result in episode.results] == [["K#1", "K#2"], ["K#3", "K#4"]]
    assert episode.metrics["pages_seen"] == 4


async def test_scope(make_env, record, play):
    anywhere = await play(make_env(), record(), ["<search>pagem7</search>"])
    assert shown(anywhere.results[0]) == ["M#7"]
    inside = await play(make_env(search={"scope": "document"}), record(), ["<search>pagem7</search>"])
    assert inside.results[0].info["effect"]["kind"] == "no_new_page"


async def test_a_crop_is_cut_from_the_view_shown_last(make_env, record, play):
    episode = await play(make_env("released"), record(), [SEARCH_K4, BOX, "<bbox>[0, 0, 100, 100]</bbox>"])
    page, first, second = (result.observation.images[0] for result in episode.results)
    width, height = page.raster[2:]
    assert first.page == second.page == PageRef("K", 4)
    assert first.raster == tuple(
        int(side * number / shown_side)
        for side, number, shown_side in zip(
            (width, height) * 2, (100, 100, 300, 200), page.size * 2, strict=True
        )
    )
    # the second box lies in the corner of the first crop, not of the page
    assert second.raster[:2] == first.raster[:2]
    assert second.raster[2] < first.raster[2]
    assert episode.metrics["crops"] == 2
    assert episode.metrics["pages_seen"] == 1
    assert episode.results[1].info["effect"]["raster"] == list(first.raster)


@pytest.mark.parametrize(
    ("first", "box"),
    [
        ([], BOX),
        ([SEARCH_K4], "<bbox>[200, 100, 100, 200]</bbox>"),
        ([SEARCH_K4], "<bbox>[9000, 9000, 9900, 9900]</bbox>"),
        ([SEARCH_K4], "<bbox>[0, 100, 700, 100.5]</bbox>"),
        ([SEARCH_K4], "<bbox>[1, 2, 3]</bbox>"),
    ],
)
async def test_boxes_that_cannot_be_cut(make_env, record, play, first, box):
    episode = await play(make_env(), record(), [*first, box, WRONG])
    result = episode.results[-2]
    assert result.observation.images == ()
    assert (result.info["valid"], result.info["reason"]) == (False, "bad_argument")
    assert not result.info["executed"]
    assert episode.metrics["crops"] == 0
    assert episode.metrics["invalid_actions"] == 1


async def test_padding_of_the_validation(make_env, record, play):
    turns = [SEARCH_K4, BOX]
    plain = await play(make_env("released", crop={"pad_val": 28}), record(), turns)
    padded = await play(make_env("released", crop={"pad_val": 28}, validate=True), record(), turns)
    default = await play(make_env("released", validate=True), record(), turns)
    rasters = [episode.results[1].observation.images[0].raster for episode in (plain, padded, default)]
    assert rasters[0] == rasters[2]
    assert rasters[1][0] < rasters[0][0]
    assert rasters[1][2] > rasters[0][2]


async def test_without_crop(make_env, record, play):
    env = make_env(grammar={"crop": False})
    episode = await play(env, record(), [SEARCH_K4, BOX])
    assert episode.results[1].info["reason"] == "no_action"
    said = episode.prompt.messages[0].parts[0].text + texts(episode.results[1].observation)[0]
    assert "bbox" not in said
    assert "box" not in said.lower()


async def test_surplus_actions_are_counted_and_not_executed(make_env, record, play):
    episode = await play(make_env(), record(), [f"{SEARCH_K4}{SEARCH_M1}{RIGHT}"])
    assert shown(episode.results[0]) == ["K#4"]
    assert not episode.results[0].done
    assert episode.metrics["surplus_actions"] == 2
    assert [action["kind"] for action in episode.results[0].info["surplus"]] == ["search", "answer"]


@pytest.mark.parametrize(
    ("variant", "overrides", "totals"),
    [
        ("paper", {}, (0.906144, 0.106144, 0.106144)),
        ("paper", {"reward": {"alpha": 0.2, "beta": 0.7, "gamma": 0.1}}, (0.906144, 0.206144, 0.106144)),
        ("released", {}, (0.906144, 0.206144, 0.0)),
    ],
    ids=["paper", "cold start", "released"],
)
async def test_worked_rewards(make_env, record, play, variant, overrides, totals):
    for last, total in zip((RIGHT, WRONG, "no tag"), totals, strict=True):
        episode = await play(make_env(variant, **overrides), record(), [*EXAMPLE, last])
        assert episode.terms.values["retrieval_ndcg"] == pytest.approx(0.530721, abs=1e-6)
        assert episode.terms.reward == pytest.approx(total, abs=1e-6)
        assert episode.metrics["reward/total"] == episode.terms.reward
        assert episode.rewards[:-1] == [0.0] * 4
        assert episode.metrics["retrieval_recall"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(("variant", "total", "asked"), [("paper", 0.8, 1), ("released", 0.0, 0)])
async def test_an_answer_without_search(make_env, record, play, judge, variant, total, asked):
    episode = await play(make_env(variant), record(), [RIGHT])
    assert episode.terms.reward == pytest.approx(total)
    assert len(judge.asked) == asked
    assert episode.metrics["reward/outcome"] == (1.0 if asked else 0.0)
    assert episode.metrics["finished"] == 1
    assert episode.metrics["invalid_action_rate"] == 0
    assert episode.metrics["invalid_rate_paper"] == 1


@pytest.mark.parametrize("variant", ["paper", "released"])
async def test_an_empty_answer_ends_and_is_not_judged(make_env, record, play, judge, variant):
    episode = await play(make_env(variant), record(), [SEARCH_K4, "<answer> \n </answer>"])
    assert episode.results[-1].end is EndReason.ANSWERED
    assert judge.asked == []
    assert episode.metrics["reward/outcome"] == 0
    assert episode.metrics["reward/format"] == 1


@pytest.mark.parametrize("variant", ["paper", "released"])
async def test_the_last_turn_is_only_read_for_an_answer(make_env, record, play, variant):
    """Five assistant turns in either variant; the fifth search is not executed."""
    episode = await play(
        make_env(variant), record(), [SEARCH_M7, BOX, "none", SEARCH_Q2, "<search>pagek3</search>"]
    )
    assert len(episode.results) == 5
    last = episode.results[-1]
    assert last.end is EndReason.TURN_LIMIT
    assert (last.info["effect"], last.info["executed"]) == ({"kind": "not_executed"}, False)
    assert episode.metrics["searches"] == 2
    assert episode.metrics["pages_seen"] == 2
    assert episode.metrics["finished"] == 0
    assert episode.metrics["reward/retrieval_ndcg"] == 0


async def test_max_turns(make_env, record, play):
    released = await play(make_env("released", max_turns=1), record(), ["a"] * 9)
    paper = await play(make_env("paper", max_turns=1), record(), ["a"] * 9)
    assert (len(released.results), len(paper.results)) == (2, 1)


@pytest.mark.parametrize("turn", [SEARCH_K4, "no tag"])
async def test_notice_of_the_last_turn(make_env, record, play, turn):
    env = make_env("paper", max_turns=3, final_turn={"notice": True})
    episode = await play(env, record(), [turn, turn, RIGHT])
    assert not any("last turn" in text for text in texts(episode.results[0].observation))
    assert "last turn" in texts(episode.results[1].observation)[-1]


async def test_a_page_that_was_dropped_was_never_shown(make_env, record, play):
    turns = [SEARCH_M7, "<search>pagek3</search>"]
    episode = await play(make_env(), record(), turns, drop_last=True)
    assert episode.terms.values["retrieval_ndcg"] == 0
    metrics = episode.metrics
    assert (metrics["pages_seen"], metrics["retrieval_recall"]) == (1, 0)
    assert (metrics["context_full"], metrics["finished"], metrics["turns"]) == (1, 0, 2)
    seen = await play(make_env(), record(), [*turns, "a", "b", "c"])
    assert seen.terms.values["retrieval_ndcg"] > 0
    assert metrics["image_tokens"] == seen.metrics["image_tokens"] / 2


async def test_a_crop_that_was_dropped(make_env, record, play):
    episode = await play(make_env(), record(), ["<search>pagek3</search>", BOX], drop_last=True)
    assert (episode.metrics["crops"], episode.metrics["pages_seen"]) == (0, 1)
    assert episode.terms.values["retrieval_ndcg"] == pytest.approx(0.469279, abs=1e-6)
    assert episode.terms.reward == pytest.approx(0.2 * 0.469279, abs=1e-6)


async def test_free_text_earns_nothing(make_env, record, play, judge):
    """Five turns without a tag: the feedback must not be mistaken for what the policy wrote."""
    for variant in ("paper", "released"):
        episode = await play(make_env(variant), record(), ["I would search, then answer."] * 5)
        assert episode.metrics["invalid_actions"] == 5
        assert episode.metrics["reward/format"] == 0
        assert episode.terms.reward == 0
        assert sum(bool(result.observation) for result in episode.results) == 4
    assert judge.asked == []


async def test_unanswerable_questions(make_env, record, play):
    sample = record(answers=(), answerable=False, extra={}, evidence_pages=())
    with pytest.raises(UserError, match="'q1'"):
        await make_env().reset(sample)
    episode = await play(
        make_env(allow_empty_gold=True), sample, [SEARCH_K4, "<answer>Not answerable</answer>"]
    )
    assert episode.terms.values == {"retrieval_ndcg": 0, "outcome": 1, "format": 1, "total": 0.8}
