"""ReAct over a real document."""

import pytest

from docagent_rl.actions import StopCause
from docagent_rl.envs.base import AssistantTurn, EndReason, ImagePart
from docagent_rl.eval.baselines.systems import REACT


@pytest.fixture
def played(report_services, report_question, play):
    """Plays these actions; what stands alone is no action."""

    async def run(*turns, drop_last=False, **config):
        turns = [f"Thought: go on\nAction: {turn}" if "[" in turn else turn for turn in turns]
        env = REACT.make_env(config, report_services, validate=True)
        return await play(env, report_question(), turns, drop_last=drop_last)

    return run


def said(result):
    (message,) = result.observation.messages
    return "".join("[image]" if isinstance(part, ImagePart) else part.text for part in message.parts)


async def test_search_open_and_answer(played):
    episode = await played("search[ferries teal]", "open[2]", "answer[241]")
    assert "Page 3:" in said(episode.results[0])
    assert "drawn in teal" in said(episode.results[0])
    assert "Velmora employs 241 people" in said(episode.results[1])
    assert episode.rewards == [0.0, 0.0, 1.0]
    names = ("searches", "fetches", "pages_seen", "retrieval_recall", "invalid_action_rate")
    assert [episode.metrics[name] for name in names] == [1.0, 1.0, 2.0, 0.5, 0.0]


async def test_a_search_shows_pages_that_were_not_seen(played):
    episode = await played(*["search[Velmora]"] * 7)
    pages = [result.info["effect"].get("pages", [{}])[0].get("page") for result in episode.results]
    found = [page for page in pages if page]
    assert len(found) == len(set(found)) >= 3
    assert pages[-1] is None


async def test_what_cannot_be_done_is_told_and_counts(played):
    episode = await played("I do not know", "open[99]", "jump[2]", "answer[241]")
    assert all(said(result) for result in episode.results[:3])
    assert "6" in said(episode.results[1])
    assert episode.metrics["invalid_actions"] == 3.0
    assert episode.rewards[-1] == 1.0


async def test_the_last_turn_can_only_answer(played):
    episode, roomy = await played("open[1]", "open[2]", max_turns=2), await played("open[1]")
    assert said(episode.results[0]) != said(roomy.results[0])
    assert episode.results[-1].end is EndReason.TURN_LIMIT
    assert episode.metrics["pages_seen"] == 1.0
    assert episode.rewards == [0.0, 0.0]


async def test_what_did_not_fit_was_not_seen_and_what_was_cut_off_is_no_action(
    played, report_services, report_question, play
):
    episode = await played("open[2]", drop_last=True)
    assert (episode.metrics["pages_seen"], episode.metrics["context_full"]) == (0.0, 1.0)
    turn = AssistantTurn("Thought: so", StopCause.TRUNCATED)
    episode = await play(REACT.make_env({}, report_services), report_question(), [turn])
    assert episode.results[0].info["reason"] == "truncated"
