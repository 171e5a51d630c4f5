from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.actions import Answer, Fetch, Invalid, InvalidReason, Search, StopCause
from docagent_rl.systems.doc_v_star.actions import DocVStarGrammar
from docagent_rl.systems.doc_v_star.thought import Fault

GRAMMAR = DocVStarGrammar()
FIRST = "<think><analysis>a</analysis><plan>p</plan><summary>s</summary></think>"
LATER = "<think><analysis>a</analysis><relevant_pages>[3]</relevant_pages><summary>s</summary></think>"
ANSWER = "<action><answer>42</answer></action>"


def later(text, stop=StopCause.END_OF_TURN, grammar=GRAMMAR):
    return grammar.parse(text, stop)


def test_the_first_turn():
    text = f"{FIRST}<action><retrieval_page> net  margin </retrieval_page></action>"
    turn = GRAMMAR.parse(text, first=True)
    assert turn.action == Search(turn.action.block, turn.action.argument, "net  margin")
    assert text[slice(*turn.action.block)] == "<retrieval_page> net  margin </retrieval_page>"
    assert text[slice(*turn.action.argument)] == " net  margin "
    assert turn.faults == ()
    assert turn.summary == "s"
    assert [text[slice(*span)] for span in turn.notes] == ["s"]
    assert turn.relevant == ()
    assert [text[slice(*span)] for span in turn.thoughts] == [FIRST[7:-8]]


def test_a_later_turn():
    turn = later(f"\n {LATER}\n<action>\n<fetch_page>[3, 7]</fetch_page> </action> \n")
    assert isinstance(turn.action, Fetch)
    assert turn.action.pages == (3, 7)
    assert turn.faults == ()
    assert turn.relevant == (3,)


def test_blanks_between_tags_are_free():
    text = re.sub("><", ">\n  <", LATER + ANSWER)
    turn = later(text)
    assert turn.faults == ()
    assert turn.action.text == "42"


def test_relevant_pages_may_be_empty():
    for body in ("", " ", "[]", "\n"):
        turn = later(LATER.replace("[3]", body) + ANSWER)
        assert (turn.faults, turn.relevant) == ((), ())


@pytest.mark.parametrize(
    ("thought", "faults"),
    [
        ("", {Fault.FRAME, Fault.BLOCKS}),
        ("<think></think>", {Fault.BLOCKS}),
        (FIRST, {Fault.BLOCKS}),
        (LATER.replace("<analysis>a</analysis>", ""), {Fault.BLOCKS}),
        (LATER.replace("<analysis>a</analysis>", "<analysis>a</analysis>" * 2), {Fault.BLOCKS}),
        (LATER.replace("a</analysis>", "a</analysis> and"), {Fault.BLOCKS}),
        (LATER.replace("<think>", "<think>well "), {Fault.BLOCKS}),
        (LATER.replace("</think>", " so</think>"), {Fault.BLOCKS}),
        (LATER.replace(">a<", "> <"), {Fault.BLANK}),
        (LATER.replace(">s<", ">\n<"), {Fault.BLANK}),
        (LATER.replace("[3]", "[3, 4.5]"), {Fault.RELEVANT_PAGES}),
        ("<think></think>" + LATER, {Fault.FRAME}),
        ("I see. " + LATER, {Fault.FRAME}),
        (LATER + "Now:", {Fault.FRAME}),
        (LATER + "</think>", {Fault.FRAME}),
        (LATER.replace(">a<", "><summary>x</summary><"), {Fault.BLOCKS}),
        (LATER.replace(">a<", "><b>bold</b> <answer>7</answer><"), set()),
    ],
)
def test_faults_of_a_thought_do_not_stop_the_action(thought, faults):
    turn = later(thought + ANSWER)
    assert set(turn.faults) == faults
    assert isinstance(turn.action, Answer)
    assert turn.action.text == "42"


def test_text_behind_or_inside_the_action_block():
    assert later(f"{LATER}{ANSWER} done").faults == (Fault.FRAME,)
    turn = later(f"{LATER}<action>I answer <answer>42</answer></action>")
    assert turn.faults == (Fault.FRAME,)
    assert turn.action.text == "42"
    # behind the action a thought is no thought of this turn
    assert Fault.FRAME in later(f"{ANSWER}{LATER}").faults


def test_faulty_turns_keep_pages_and_summary():
    turn = later("<think><relevant_pages>3, x 5</relevant_pages>text<summary> so far </summary></think>")
    assert isinstance(turn.action, Invalid)
    assert turn.relevant == (3, 5)
    assert turn.summary == "so far"
    # outside a closed thought there is nothing to keep
    for text in ("<relevant_pages>[3]</relevant_pages><summary>s</summary>", LATER.replace("</think>", "")):
        assert (later(text).relevant, later(text).summary) == ((), "")


def test_several_lists_and_summaries():
    turn = later(
        LATER.replace("</think>", "<relevant_pages>9, 3</relevant_pages><summary>t</summary></think>")
    )
    assert turn.relevant == (3, 9)
    assert turn.summary == "t"
    assert Fault.BLOCKS in turn.faults


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", InvalidReason.NO_ACTION),
        (LATER, InvalidReason.NO_ACTION),
        (f"{LATER}<answer>42</answer>", InvalidReason.NO_ACTION),
        (f"{LATER}<action>42</action>", InvalidReason.NO_ACTION),
        (f"<think>{ANSWER}</think>", InvalidReason.NO_ACTION),
        (f"{LATER}<action><answer>42</answer>", InvalidReason.UNCLOSED),
        (f"{LATER}<action><answer>42</action>", InvalidReason.UNCLOSED),
        (f"{LATER}<action><answer>1</answer><fetch_page>2</fetch_page></action>", InvalidReason.SEVERAL),
        (f"{LATER}<action><answer>1</answer><search>2</search></action>", InvalidReason.SEVERAL),
        (f"{LATER}<action><fetch_page><answer>1</answer></action>", InvalidReason.SEVERAL),
        (f"{LATER}{ANSWER}{ANSWER}", InvalidReason.SEVERAL),
        (f"{LATER}<action>{ANSWER}</action>", InvalidReason.SEVERAL),
        (f"{LATER}<action><answer><fetch_page>1</fetch_page></answer></action>", InvalidReason.NESTED),
        (f"{LATER}<action><answer></fetch_page></answer></action>", InvalidReason.NESTED),
        (f"{LATER}<action><retrieval_page> \n</retrieval_page></action>", InvalidReason.BAD_ARGUMENT),
        (f"{LATER}<action><fetch_page>three</fetch_page></action>", InvalidReason.BAD_ARGUMENT),
        (f"{LATER}<action><fetch_page>[{'9' * 5000}]</fetch_page></action>", InvalidReason.BAD_ARGUMENT),
        (f"{LATER}<Action><answer>42</answer></Action>", InvalidReason.NO_ACTION),
    ],
)
def test_invalid_actions(text, reason):
    turn = later(text)
    assert isinstance(turn.action, Invalid)
    assert turn.action.reason is reason
    assert turn.action.detail
    assert Fault.ACTION in turn.faults


def test_a_fetch_with_strays_is_executed():
    turn = later(f"{LATER}<action><fetch_page>[3, x, 7]</fetch_page></action>")
    assert turn.action.pages == (3, 7)
    assert turn.faults == (Fault.FETCH_PAGES,)


def test_a_blank_answer_is_an_answer_with_a_fault():
    turn = later(f"{LATER}<action><answer> \n</answer></action>")
    assert turn.action.text == ""
    assert turn.faults == (Fault.ANSWER,)


def test_how_sampling_ended():
    whole = LATER + ANSWER
    assert later(whole, StopCause.TRUNCATED).faults == (Fault.TRUNCATED,)
    assert isinstance(later(whole, StopCause.TRUNCATED).action, Answer)
    assert later(LATER, StopCause.TRUNCATED).action.reason is InvalidReason.TRUNCATED
    assert later(whole, StopCause.CONTROL_TOKEN).action.reason is InvalidReason.CONTROL_TOKEN


def test_ablations():
    turn = f"{LATER}<action><fetch_page>3</fetch_page></action>"
    none = DocVStarGrammar(fetch=False)
    assert none.tags == ("retrieval_page", "answer")
    assert none.parse(turn).action.reason is InvalidReason.NO_ACTION
    assert DocVStarGrammar(retrieval=False).tags == ("fetch_page", "answer")
    brief = DocVStarGrammar(analysis=False)
    short = LATER.replace("<analysis>a</analysis>", "") + ANSWER
    assert brief.parse(short).faults == ()
    assert brief.parse(LATER + ANSWER).faults == (Fault.BLOCKS,)
    assert brief.parse(FIRST + ANSWER, first=True).faults == ()


TAGS = ["think", "action", "analysis", "plan", "relevant_pages", "summary", "retrieval_page", "fetch_page"]
PIECES = [f"<{slash}{tag}>" for tag in (*TAGS, "answer") for slash in ("", "/")]
PIECES += ["[3]", "x", " ", "\n", "4 5", "<b>", "\x00", "\ud83d"]


@given(st.lists(st.sampled_from(PIECES), max_size=24), st.sampled_from(StopCause), st.booleans())
def test_any_text(pieces, stop, first):
    text = "".join(pieces)
    turn = GRAMMAR.parse(text, stop, first=first)
    assert turn == GRAMMAR.parse(text, stop, first=first)
    assert isinstance(turn.action, Invalid) == (Fault.ACTION in turn.faults)
    assert list(turn.faults) == [fault for fault in Fault if fault in turn.faults]
    if turn.action.argument:
        start, end = turn.action.argument
        assert 0 <= start <= end <= len(text)
    if not turn.faults:
        assert follows_the_rules(text, first=first)


def follows_the_rules(text, *, first):
    """The grammar of the specification as one regular expression."""
    second = "<plan>.+</plan>" if first else r"\s*<relevant_pages>[\[\]\s,\d]*</relevant_pages>\s*"
    acts = ["<retrieval_page>.+</retrieval_page>", r"<fetch_page>.*\d.*</fetch_page>", "<answer>.+</answer>"]
    pattern = (
        rf"\s*<think>\s*<analysis>.+</analysis>\s*{second}\s*<summary>.+</summary>\s*</think>"
        rf"\s*<action>\s*(?:{'|'.join(acts)})\s*</action>\s*"
    )
    return re.fullmatch(pattern, text, re.DOTALL) is not None


def test_generated_turns_are_free_of_faults():
    rng = random.Random(0)
    for _ in range(200):
        first = rng.random() < 0.5
        blank = rng.choice(["", " ", "\n\n"])
        action = rng.choice(["<answer>a; b</answer>", "<fetch_page>1 2</fetch_page>"])
        text = (FIRST if first else LATER).replace("><", f">{blank}<") + f"{blank}<action>{action}</action>"
        assert GRAMMAR.parse(text, first=first).faults == ()
        assert follows_the_rules(text, first=first)


def test_long_turns_parse():
    """A parser that is not linear in the length would take minutes."""
    for piece in (
        *PIECES[:18],
        "<think></think>",
        "<think><summary>s</summary></think>",
        "<action></action>",
    ):
        GRAMMAR.parse(piece * 5_000)
        GRAMMAR.parse(f"<think>{piece * 5_000}</think><action>{piece * 5_000}</action>")
