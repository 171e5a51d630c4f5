"""What baselines read out of a turn, whatever it holds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.actions import StopCause
from docagent_rl.actions.base import Answer, Fetch, Invalid, Search
from docagent_rl.eval.baselines.grammar import ReactGrammar, ReaderGrammar


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


def test_half_a_reply_is_no_answer():
    grammar = ReaderGrammar()
    assert isinstance(grammar.parse("The number is", StopCause.TRUNCATED).action, Invalid)
    assert grammar.parse("<answer>5</answer> be", StopCause.TRUNCATED).action.text == "5"


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
@given(st.text(alphabet="[]<>/Actionserchopenwk: \n*9", max_size=120), st.sampled_from(list(StopCause)))
def test_any_text_is_read(text, stop):
    for grammar in (ReaderGrammar(), ReactGrammar()):
        parsed = grammar.parse(text, stop)
        for action in (parsed.action, *parsed.surplus):
            if action.argument is not None:
                assert 0 <= action.argument[0] <= action.argument[1] <= len(text)
