"""ReAct over a real document."""

import pytest

from docagent_rl.actions import StopCause
from docagent_rl.envs.base import AssistantTurn, EndReason, ImagePart
from docagent_rl.eval.baselines.systems import REACT


@pytest.fixture
def environment(report_services):
    return lambda **config: REACT.make_env(config, report_services, validate=True)


def said(result):
    (message,) = result.observation.messages
    return "".join("[image]" if isinstance(part, ImagePart) else part.text for part in message.parts)


def act(line):
    return f"Thought: go on\nAction: {line}"


async def test_search_open_and_answer(environment, play, report_question):
    turns = [act("search[ferries teal]"), act("open[2]"), act("answer[241]")]
    episode = await play(environment(), report_question(), turns)
    assert "Page 3:" in said(episode.results[0])
    assert "drawn in teal" in said(episode.results[0])
    assert "Velmora employs 241 people" in said(episode.results[1])
    assert episode.rewards == [0.0, 0.0, 1.0]
    metrics = episode.metrics
    assert (metrics["searches"], metrics["fetches"], metrics["pages_seen"]) == (1.0, 1.0, 2.0)
    assert metrics["retrieval_recall"] == 0.5
    assert metrics["invalid_action_rate"] == 0.0


async def test_pages_are_shown_as_images(environment, play, report_question):
    episode = await play(environment(form="image"), report_question(), [act("open[1]"), act("answer[x]")])
    assert said(episode.results[0]).count("[image]") == 1
    assert episode.metrics["image_tokens"] > 0


async def test_a_search_shows_pages_that_were_not_seen(environment, play, report_question):
    turns = [act("search[Velmora]") for _ in range(7)]
    episode = await play(environment(), report_question(), turns)
    pages = [result.info["effect"].get("pages", [{}])[0].get("page") for result in episode.results]
    found = [page for page in pages if page]
    assert len(found) == len(set(found)) >= 3
    assert pages[-1] is None


async def test_what_cannot_be_done_is_told_and_counts(environment, play, report_question):
    turns = ["I do not know", act("open[99]"), act("jump[2]"), act("answer[241]")]
    episode = await play(environment(), report_question(), turns)
    assert all(said(result) for result in episode.results[:3])
    assert "6" in said(episode.results[1])
    assert episode.metrics["invalid_actions"] == 3.0
    assert episode.rewards[-1] == 1.0


async def test_the_last_turn_can_only_answer(environment, play, report_question):
    episode = await play(environment(max_turns=2), report_question(), [act("open[1]"), act("open[2]")])
    roomy = await play(environment(), report_question(), [act("open[1]")])
    assert said(episode.results[0]) != said(roomy.results[0])
    assert episode.results[-1].end is EndReason.TURN_LIMIT
    assert episode.metrics["pages_seen"] == 1.0
    assert episode.rewards == [0.0, 0.0]


async def test_what_did_not_fit_was_not_seen(environment, play, report_question):
    episode = await play(environment(), report_question(), [act("open[2]")], drop_last=True)
    assert episode.metrics["pages_seen"] == 0.0
    assert episode.metrics["context_full"] == 1.0


async def test_a_turn_that_was_cut_off_is_no_action(environment, play, report_question):
    episode = await play(
        environment(), report_question(), [AssistantTurn("Thought: so", StopCause.TRUNCATED)]
    )
    assert episode.results[0].info["reason"] == "truncated"
