"""MDocAgent on a real document."""

import dataclasses
import json

import pytest

from docagent_rl.actions.base import StopCause
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import AssistantTurn, EndReason, ImagePart
from docagent_rl.envs.services import RetrieverService
from docagent_rl.lab.eval.baselines.agents import json_object, read_report
from docagent_rl.lab.eval.baselines.systems import MDOCAGENT
from docagent_rl.retrieval import Hit
from tests.lab.eval.baselines.contexts import texts_of

CLUES = json.dumps({"text": "the number of employees", "image": "the drawn ferries"})
GENERAL, TEXT, IMAGE = "It may be 214 people.", "The text says 241.", "I see no number."
RIGHT = "<answer>241</answer>"
SMALL = {"display": {"min_pixels": 12544, "max_pixels": 50176}}


class LastPages:
    """A retriever that finds the last pages of the document."""

    def search(self, queries, *, doc_id=None, top_k, exclude=()):
        return [[Hit(PageRef("R", 6 - rank), 1.0 / (rank + 1)) for rank in range(top_k)]]


@pytest.fixture
def played(report_services, report_question, play):
    """Play these turns; return the trajectory."""

    async def run(*turns, question=None, room=None, texts=None, **config):
        services = dataclasses.replace(report_services, prompt_tokens=room, text_retriever=texts)
        env = MDOCAGENT.make_env({**SMALL, **config}, services, validate=True)
        turns = turns or (GENERAL, CLUES, TEXT, IMAGE, RIGHT)
        return await play(env, report_question(**question or {}), list(turns))

    return run


def contexts(state):
    """Return the user messages of the five agents, in order."""
    later = [result.observation for result in state.results[:-1]]
    assert all(observation.fresh for observation in later)
    return [texts_of(observation)[1] for observation in (state.prompt, *later)]


async def test_five_agents_answer_each_in_its_own_context(played):
    state = await played()
    general, critical, text, image, summarizing = contexts(state)
    for context in (general, critical):
        assert "[image]" in context
        assert "Velmora employs 241 people" in context
    assert "[image]" not in text
    assert "Velmora employs 241 people" in text
    assert "[image]" in image
    assert "employs 241" not in image
    assert "Page" not in summarizing
    instructions = [texts_of(state.prompt)[0]]
    instructions += [texts_of(result.observation)[0] for result in state.results[:-1]]
    assert len(set(instructions)) == 5
    assert state.rewards == [0.0, 0.0, 0.0, 0.0, 1.0]
    assert state.results[-1].end is EndReason.ANSWERED
    names = ("turns", "pages_seen", "retrieval_recall", "invalid_actions")
    assert [state.metrics[name] for name in names] == [5.0, 1.0, 0.5, 0.0]


async def test_agents_see_what_is_meant_for_them(played):
    _, critical, text, image, summarizing = contexts(await played())
    assert GENERAL in critical
    assert "the number of employees" in text
    assert "the drawn ferries" not in text
    assert "the drawn ferries" in image
    assert GENERAL not in text + image
    assert all(report in summarizing for report in (GENERAL, TEXT, IMAGE))
    assert "the number of employees" not in summarizing


@pytest.mark.parametrize("clues", ["I cannot say.", "[1]", '{"text": 3', "{}", '{"image": null}'])
async def test_without_clues_the_others_work_all_the_same(played, clues):
    state = await played(GENERAL, clues, TEXT, IMAGE, RIGHT)
    _, _, text, image, _ = contexts(state)
    assert "clue" not in text + image
    assert state.rewards[-1] == 1.0


async def test_images_are_counted_as_often_as_they_are_shown(played):
    state = await played()
    (tokens,) = {page.image_tokens for page in state.env.state.material if page.image_tokens}
    assert state.metrics["image_tokens"] == 3 * tokens  # general, critical and image agent


async def test_texts_can_have_a_ranking_of_their_own(played):
    texts = RetrieverService(LastPages())
    state = await played(texts=texts, text_ranking="own", top_k=2)
    general, _, text, image, _ = contexts(state)
    assert [number in text for number in ("Page 6:", "Page 5:", "Page 2:")] == [True, True, False]
    assert "Page 2:" in image
    assert "Page 6:" not in image
    # rank by rank, the image first
    places = [general.index(label) for label in ("Page 2:\n[image]", "Page 6:\n--", "Page 5:\n--")]
    assert places == sorted(places)
    assert MDOCAGENT.two_rankings(MDOCAGENT.parse_config({"text_ranking": "own"}))
    assert not MDOCAGENT.two_rankings(MDOCAGENT.parse_config({}))


@pytest.mark.parametrize("top_k", [1, 4])
async def test_pages_that_do_not_fit_are_left_out_and_counted(played, report_services, top_k):
    long = "so many words " * 900
    state = await played(long, CLUES, long, long, RIGHT, top_k=top_k, room=900, report_tokens=300)
    seen, left = len(state.env.state.material), state.metrics["pages_left_out"]
    assert seen + left == 2 * top_k
    assert bool(state.env.adapted()) == bool(left) == (top_k == 4)
    for result in (None, *state.results[:-2]):
        observation = state.prompt if result is None else result.observation
        tokens = sum(report_services.count_tokens(text) for text in texts_of(observation))
        images = [part for part in observation.messages[1].parts if isinstance(part, ImagePart)]
        (each,) = {page.image_tokens for page in state.env.state.material if page.image_tokens}
        assert tokens + each * len(images) <= 900


async def test_an_agent_that_fails_leaves_the_answer_to_the_others(played):
    cut = AssistantTurn("It may be", StopCause.TRUNCATED)
    broken = AssistantTurn("", StopCause.CONTROL_TOKEN)
    state = await played(cut, CLUES, broken, "<think>Hm.</think> So 241.", RIGHT)
    summarizing = contexts(state)[-1]
    assert "It may be" in summarizing
    assert "So 241." in summarizing
    assert "Hm." not in summarizing
    assert state.metrics["invalid_actions"] == 1.0
    assert state.rewards[-1] == 1.0


async def test_the_last_agent_has_one_turn(played):
    state = await played(GENERAL, CLUES, TEXT, IMAGE, "<answer>never closed")
    assert state.results[-1].end is EndReason.TURN_LIMIT
    assert state.rewards == [0.0] * 5


async def test_a_window_is_all_there_is_and_nothing_found_is_said(played):
    windowed = {"extra": {"window": [3, 5]}}
    state = await played(question=windowed, top_k=4)
    assert {page.page for page in state.env.state.shown} <= {3, 4, 5}
    nothing = await played(question={"question": "zzz qqq?"})
    *readers, summarizing = contexts(nothing)
    assert all("No page was found." in context for context in readers)
    assert "No page" not in summarizing


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('so: ```{"text": "a"}```', {"text": "a"}),
        ('{"a": {"b": 1}} }', None),
        ("[1, 2]", None),
        ("{" * 5000 + "}" * 5000, None),
        ("", None),
    ],
)
def test_an_object_is_read_from_a_text(text, found):
    assert json_object(text) == found


@pytest.mark.parametrize("text", ["", "  a b \n", "<think>x</think> y", "<think>x"])
def test_a_report_is_all_text_outside_of_thoughts(text):
    action = read_report(text).action
    begin, end = action.argument
    assert action.text == text[begin:end]
    assert "x" not in action.text
