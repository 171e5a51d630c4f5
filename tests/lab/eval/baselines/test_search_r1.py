"""Search-R1 on a real document."""

import pytest

from docagent_rl.envs.base import EndReason, ImagePart
from docagent_rl.lab.eval.baselines.systems import SEARCH_R1

SEARCH = "<think>I need to know more.</think>\n<search>{}</search>"
RIGHT = "<think>So it is.</think>\n<answer>241</answer>"
SMALL = {"display": {"min_pixels": 12544, "max_pixels": 50176}}


@pytest.fixture
def played(report_services, report_question, play):
    """Play these turns; a text without tags is a query."""

    async def run(*turns, question=None, **config):
        turns = [turn if "<" in turn else SEARCH.format(turn) for turn in turns]
        env = SEARCH_R1.make_env(config, report_services, validate=True)
        return await play(env, report_question(**question or {}), turns)

    return run


def said(result):
    (message,) = result.observation.messages
    return "".join(
        "[image]" if isinstance(part, ImagePart) else part.text for part in message.parts
    )


def pages(result):
    shown = result.record.effect.to_dict().get("pages", [])
    return [page["page"] for page in shown]


async def test_a_search_returns_its_best_pages_as_information_and_an_answer_ends_it(played):
    state = await played("people Velmora employs", RIGHT)
    text = said(state.results[0])
    assert text.startswith("<information>\nPage 2:\n")
    assert text.endswith("\n</information>")
    assert "Velmora employs 241 people" in text
    assert len(pages(state.results[0])) == 3
    assert state.results[-1].end is EndReason.ANSWERED
    assert state.rewards == [0.0, 1.0]
    names = ("searches", "pages_seen", "invalid_action_rate", "finished")
    assert [state.metrics[name] for name in names] == [1.0, 3.0, 0.0, 1.0]


async def test_the_same_search_returns_the_same_pages_which_are_seen_once(played):
    state = await played("Velmora", "Velmora", RIGHT)
    first, second = (pages(result) for result in state.results[:2])
    assert first == second
    assert state.metrics["pages_seen"] == len(first) == 3.0


@pytest.mark.parametrize(("room", "shown"), [(1, 1), (50, 1), (2048, 3)])
async def test_pages_of_a_search_share_its_room(played, room, shown):
    state = await played("people Velmora employs", RIGHT, information_tokens=room)
    assert len(pages(state.results[0])) == shown
    assert said(state.results[0]).count("Page ") == shown


async def test_pages_can_be_images(played):
    state = await played("people Velmora employs", RIGHT, form="image", top_k=2, **SMALL)
    assert said(state.results[0]).count("[image]") == 2
    assert state.metrics["image_tokens"] > 0


async def test_nothing_found_is_information_too(played):
    state = await played("zzz qqq", RIGHT)
    assert said(state.results[0]) == "<information>\nNo page is found.\n</information>"
    assert state.rewards == [0.0, 1.0]


async def test_of_a_turn_that_invents_information_the_search_counts(played):
    turn = f"{SEARCH.format('Velmora')}<information>Page 9: 7</information><answer>7</answer>"
    state = await played(turn, RIGHT)
    assert len(pages(state.results[0])) == 3
    assert state.metrics["surplus_actions"] == 1.0
    assert state.rewards == [0.0, 1.0]


async def test_a_turn_without_an_action_is_told_so_and_counts(played):
    state = await played("<think>Hm.</think>", RIGHT)
    assert "the turn holds no action" in said(state.results[0])
    assert state.metrics["invalid_actions"] == 1.0
    assert state.rewards == [0.0, 1.0]


async def test_the_last_turn_can_only_answer_and_no_word_of_it_before(played):
    last, roomy = await played("Velmora", "ferries", max_turns=2), await played("Velmora", RIGHT)
    assert said(last.results[0]) == said(roomy.results[0])
    assert last.results[-1].end is EndReason.TURN_LIMIT
    assert last.metrics["searches"] == 1.0
    assert last.rewards == [0.0, 0.0]


@pytest.mark.parametrize("scope", ["document", "corpus"])
async def test_a_window_is_all_there_is(played, scope):
    windowed = {"extra": {"window": [3, 5]}}
    state = await played("people Velmora employs", RIGHT, question=windowed, scope=scope)
    found = {int(page.partition("#")[2]) for page in pages(state.results[0])}
    assert found <= {3, 4, 5}
    assert "241" not in said(state.results[0])
