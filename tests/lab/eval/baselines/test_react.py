"""ReAct on a real document."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.actions.base import Answer, Fetch, Invalid, Search, StopCause
from docagent_rl.envs.base import AssistantTurn, EndReason, ImagePart
from docagent_rl.lab.eval.baselines.react import ReactGrammar
from docagent_rl.lab.eval.baselines.reader import ReaderGrammar
from docagent_rl.lab.eval.baselines.systems import REACT


@pytest.fixture
def played(report_services, report_question, play):
    """Play these actions; a text alone is no action."""

    async def run(*turns, drop_last=False, question=None, **config):
        turns = [f"Thought: go on\nAction: {turn}" if "[" in turn else turn for turn in turns]
        env = REACT.make_env(config, report_services, validate=True)
        return await play(env, report_question(**question or {}), turns, drop_last=drop_last)

    return run


def said(result):
    (message,) = result.observation.messages
    return "".join(
        "[image]" if isinstance(part, ImagePart) else part.text for part in message.parts
    )


async def test_search_open_and_answer(played):
    state = await played("search[ferries teal]", "open[2]", "answer[241]")
    assert "Page 3:" in said(state.results[0])
    assert "drawn in teal" in said(state.results[0])
    assert "Velmora employs 241 people" in said(state.results[1])
    assert state.rewards == [0.0, 0.0, 1.0]
    names = ("searches", "fetches", "pages_seen", "retrieval_recall", "invalid_action_rate")
    assert [state.metrics[name] for name in names] == [1.0, 1.0, 2.0, 0.5, 0.0]


async def test_a_search_shows_pages_that_were_not_seen(played):
    state = await played(*["search[Velmora]"] * 7)
    pages = [
        result.record.effect.to_dict().get("pages", [{}])[0].get("page") for result in state.results
    ]
    found = [page for page in pages if page]
    assert len(found) == len(set(found)) >= 3
    assert pages[-1] is None


async def test_what_cannot_be_done_is_told_and_counts(played):
    state = await played("I do not know", "open[99]", "jump[2]", "answer[241]")
    assert all(said(result) for result in state.results[:3])
    assert "6" in said(state.results[1])
    assert state.metrics["invalid_actions"] == 3.0
    assert state.rewards[-1] == 1.0


async def test_a_window_is_all_there_is(played):
    windowed = {"extra": {"window": [3, 5]}}
    turns = ["open[2]", "search[people employs]", "open[4]", *["search[Velmora]"] * 3]
    state = await played(*turns, question=windowed)
    (system, _) = state.prompt.messages
    assert "a document of 3 pages" in system.parts[0].text
    assert "from 3 to 5" in system.parts[0].text
    assert "the document has 3 pages, numbers 3 to 5" in said(state.results[0])
    assert {page.page for page in state.env.state.shown} == {3, 4, 5}
    assert state.metrics["retrieval_recall"] == 1.0  # page 4; page 2 lies outside


async def test_the_last_turn_can_only_answer(played):
    state, roomy = await played("open[1]", "open[2]", max_turns=2), await played("open[1]")
    assert said(state.results[0]) != said(roomy.results[0])
    assert state.results[-1].end is EndReason.TURN_LIMIT
    assert state.metrics["pages_seen"] == 1.0
    assert state.rewards == [0.0, 0.0]


async def test_what_did_not_fit_was_not_seen_and_what_was_cut_off_is_no_action(
    played, report_services, report_question, play
):
    state = await played("open[2]", drop_last=True)
    assert (state.metrics["pages_seen"], state.metrics["context_full"]) == (0.0, 1.0)
    turn = AssistantTurn("Thought: so", StopCause.TRUNCATED)
    state = await play(REACT.make_env({}, report_services), report_question(), [turn])
    assert state.results[0].record.reason == "truncated"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("It is <answer> a </answer> or <answer>b</answer>", "a"),
        (" 241 people", "241 people"),
        ("<think>maybe <answer>3</answer></think>\n 7 ", "7"),
        ("<answer></answer>", ""),
        # no answer
        ("  ", None),
        ("<think>for ever", None),
        ("<answer>never closed", None),
        ("<think>a</think>  ", None),
    ],
)
def test_an_answer_is_read_from_its_tag_or_is_all_that_stands_there(text, answer):
    action = ReaderGrammar().parse(text).action
    if answer is None:
        assert isinstance(action, Invalid)
    else:
        begin, end = action.argument
        assert action.text == text[begin:end].strip() == answer


@pytest.mark.parametrize(
    ("line", "action", "argument"),
    [
        ("Action: search[ferries of [2020] and 2021]", Search, "ferries of [2020] and 2021"),
        ("action : Search[a]\nObservation: b\nAction: answer[9]", Search, "a"),
        ("**Action:** open[page 3]", Fetch, (3,)),
        ("Action: open[3]", Fetch, (3,)),
        ("Action: finish[never closed\nObservation: x", Answer, "never closed"),
        ("Action: answer[]", Answer, ""),
    ],
)
def test_the_first_line_of_an_action_counts(line, action, argument):
    parsed = ReactGrammar().parse(f"Thought: let me see\n{line}")
    assert type(parsed.action) is action
    assert list(parsed.action.arguments().values()) in ([argument], [list(argument)])
    assert [each.text for each in parsed.surplus] == ["9"] * line.count("answer[9]")


@pytest.mark.parametrize(
    "text",
    ["Thought: hm", "Action: jump[x]", "Action: open[0]", "Action: open[1, 2]", "Action: search[ ]",
     "<think>\nAction: answer[1]\n</think>"],
)  # fmt: skip
def test_what_cannot_be_done_is_invalid(text):
    assert isinstance(ReactGrammar().parse(text).action, Invalid)


@settings(max_examples=50)
@given(
    st.text(alphabet="[]<>/Actionserchopenwk: \n*9", max_size=120), st.sampled_from(list(StopCause))
)
def test_any_text_is_read(text, stop):
    for grammar in (ReaderGrammar(), ReactGrammar()):
        parsed = grammar.parse(text, stop)
        for action in (parsed.action, *parsed.surplus):
            if action.argument is not None:
                assert 0 <= action.argument[0] <= action.argument[1] <= len(text)
