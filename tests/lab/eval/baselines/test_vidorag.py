"""ViDoRAG on a real document."""

import dataclasses
import json

import pytest

from docagent_rl.actions.base import StopCause
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import AssistantTurn, EndReason
from docagent_rl.envs.services import RetrieverService
from docagent_rl.lab.eval.baselines.systems import VIDORAG
from docagent_rl.lab.eval.baselines.vidorag import numbers_in, plain
from docagent_rl.retrieval import Hit
from tests.lab.eval.baselines.contexts import texts_of

SMALL = {"display": {"min_pixels": 12544, "max_pixels": 50176}}


def chosen(*numbers):
    return json.dumps({"reason": "so", "summary": "facts", "choice": list(numbers)})


def answered(*numbers, answer=241):
    return json.dumps({"reason": "so", "answer": answer, "reference": list(numbers)})


def missing(*numbers):
    return json.dumps({"reason": "so", "information": "the year", "choice": list(numbers)})


class FirstPages:
    """A retriever that finds pages 5 and 1."""

    def search(self, queries, *, doc_id=None, top_k, exclude=()):
        return [[Hit(PageRef("R", 5), 2.0), Hit(PageRef("R", 1), 1.0)]]


@pytest.fixture
def played(report_services, report_question, play):
    """Play these turns; return the trajectory."""

    async def run(*turns, question=None, room=None, texts=None, **config):
        services = dataclasses.replace(report_services, prompt_tokens=room, text_retriever=texts)
        env = VIDORAG.make_env({**SMALL, **config}, services, validate=True)
        return await play(env, report_question(**question or {}), list(turns))

    return run


def contexts(state):
    """Return the agents in the order of their turns, and what each of them was shown."""
    later = [result.observation for result in state.results if result.observation]
    assert all(observation.fresh for observation in later)
    beginnings = {"You look for": "seeker", "You answer a question from page images, which are "
                  "numbered from 1, or": "inspector", "You answer": "answer"}  # fmt: skip
    found = []
    for system, user in map(texts_of, (state.prompt, *later)):
        name = next(
            name for start, name in beginnings.items() if " ".join(system.split()).startswith(start)
        )
        found.append((name, user))
    return found


async def test_an_answer_from_all_chosen_pages_stands(played):
    state = await played(chosen(2), answered(1))
    (_, seeker), (name, inspector) = contexts(state)
    assert name == "inspector"
    assert [seeker.count("[image]"), inspector.count("[image]")] == [4, 1]
    # in the order of the document, numbered anew for each agent
    assert "Image 1:\n(page 2)\n[image]" in seeker
    assert "Image 2:\n(page 3)\n[image]" in seeker
    assert "Image 1:\n(page 3)\n[image]" in inspector
    assert state.rewards == [0.0, 1.0]
    assert state.results[-1].end is EndReason.ANSWERED
    names = ("turns", "pages_seen", "retrieval_recall", "invalid_actions")
    assert [state.metrics[name] for name in names] == [2.0, 4.0, 1.0, 0.0]
    # four images for the seeker, one for the inspector
    (tokens,) = {page.image_tokens for page in state.env.state.material}
    assert state.metrics["image_tokens"] == 5 * tokens


async def test_a_draft_from_some_pages_goes_with_them_to_the_answer_agent(played):
    state = await played(chosen(1, 2), answered(2, answer="214"), answered())
    (*_, (name, context)) = contexts(state)
    assert name == "answer"
    assert context.count("[image]") == 1
    assert "(page 3)" in context
    assert "214" in context
    assert state.rewards == [0.0, 0.0, 1.0]


async def test_what_is_missing_is_sought_among_the_pages_that_are_left(played):
    state = await played(chosen(1, 4), missing(2), chosen(1), answered(1, 2))
    names = [name for name, _ in contexts(state)]
    assert names == ["seeker", "inspector", "seeker", "inspector"]
    seeker, inspector = (context for _, context in contexts(state)[2:])
    assert "the year" in seeker
    assert "the year" not in inspector
    assert seeker.count("[image]") == 2
    # pages 2 and 5 were chosen, of which 5 was kept, and then page 3
    assert "(page 3)" in seeker
    assert "(page 4)" in seeker
    assert inspector.count("[image]") == 2
    assert "Image 1:\n(page 5)" in inspector
    assert "Image 2:\n(page 3)" in inspector
    assert state.rewards[-1] == 1.0


async def test_without_a_choice_the_answer_agent_answers_from_what_there_is(played):
    nothing = await played(chosen(), answered(answer="Not answerable"))
    assert [name for name, _ in contexts(nothing)] == ["seeker", "answer"]
    assert "There is no page." in contexts(nothing)[1][1]
    later = await played(chosen(1), missing(1), chosen(), answered())
    assert [name for name, _ in contexts(later)][-1] == "answer"
    assert contexts(later)[-1][1].count("[image]") == 1
    every = await played(chosen(1, 2, 3, 4), missing(1, 2), answered())
    assert [name for name, _ in contexts(every)][-1] == "answer"
    assert contexts(every)[-1][1].count("[image]") == 2
    assert "the year" not in contexts(every)[-1][1]


@pytest.mark.parametrize(
    "broken",
    ["Image 2, I think", chosen(5), chosen(0), chosen(1.5), '{"choice": "1"}',
     AssistantTurn(chosen(1), StopCause.CONTROL_TOKEN), chosen(1)[:-3]],
)  # fmt: skip
async def test_an_agent_has_three_tries(played, broken):
    state = await played(broken, broken, chosen(2), broken, answered(1))
    names = [name for name, _ in contexts(state)]
    assert names == ["seeker"] * 3 + ["inspector"] * 2
    assert contexts(state)[0] == contexts(state)[1] == contexts(state)[2]
    assert state.rewards[-1] == 1.0
    assert state.metrics["invalid_actions"] == 3.0
    state = await played(broken, broken, broken, chosen(2))
    assert len(state.results) == 3
    assert state.results[-1].end is EndReason.INVALID
    assert state.rewards == [0.0] * 3


@pytest.mark.parametrize(
    "broken", [answered(), answered(2), missing(3), '{"information": "x"}', '{"reference": [1]}']
)
async def test_an_inspector_names_pages_that_it_sees(played, broken):
    state = await played(chosen(2), broken, answered(1))
    assert state.metrics["invalid_actions"] == 1.0
    assert state.rewards[-1] == 1.0


async def test_the_last_turn_is_the_answer_agents(played):
    state = await played(chosen(1), missing(1), chosen(1), answered(), max_turns=4)
    assert [name for name, _ in contexts(state)] == ["seeker", "inspector", "seeker", "answer"]
    assert state.rewards[-1] == 1.0
    state = await played(chosen(1), missing(1), chosen(1), "no JSON", max_turns=4)
    assert state.results[-1].end is EndReason.TURN_LIMIT


async def test_scores_decide_how_many_pages_each_ranking_gives(played):
    texts = RetrieverService(FirstPages())
    state = await played(chosen(1), texts=texts, text_ranking="own", min_pages=1)
    numbers = [page.ref.page for page in state.env.state.material]
    assert numbers == sorted(numbers)
    assert 5 in numbers  # the best of the texts
    assert 2 in numbers  # the best of the images
    assert 1 not in numbers  # the texts' other group
    assert VIDORAG.two_rankings(VIDORAG.parse_config({"text_ranking": "own"}))


async def test_pages_that_do_not_fit_are_left_out_and_counted(played):
    state = await played(chosen(1), room=700, report_tokens=300)
    seen = len(state.env.state.material)
    assert 0 < seen < 4
    assert state.metrics["pages_left_out"] == 4 - seen
    assert state.env.adapted()


async def test_a_window_is_all_there_is(played):
    state = await played(chosen(1), question={"extra": {"window": [3, 5]}})
    assert {page.page for page in state.env.state.shown} <= {3, 4, 5}


@pytest.mark.parametrize(
    ("value", "found"),
    [([1.0, 2.0], (1, 2)), ([], ()), ([3.0], None), ([0.0], None), ([True], None), (["1"], None),
     (None, None), ([float("inf")], None)],
)  # fmt: skip
def test_numbers_of_pages_are_whole_and_in_range(value, found):
    assert numbers_in(value, 2) == found


@pytest.mark.parametrize(
    ("value", "text"), [(42.0, "42"), (0.5, "0.5"), (" a ", "a"), (["a", 1.0], "a, 1")]
)
def test_values_are_written_as_text(value, text):
    assert plain(value) == text
