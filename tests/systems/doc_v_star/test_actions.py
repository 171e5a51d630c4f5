import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.actions.base import Answer, Fetch, Invalid, InvalidReason, Search, StopCause
from docagent_rl.systems.doc_v_star.actions import DocVStarGrammar, Fault

GRAMMAR = DocVStarGrammar()
FIRST = "<think><analysis>a</analysis><plan>p</plan><summary>s</summary></think>"
LATER = (
    "<think><analysis>a</analysis><relevant_pages>[3]</relevant_pages><summary>s</summary></think>"
)
ANSWER = "<action><answer>42</answer></action>"


def acted(action):
    return GRAMMAR.parse(f"{LATER}<action>{action}</action>")


def test_the_first_turn():
    text = f"{FIRST}<action><retrieval_page> net  margin </retrieval_page></action>"
    turn = GRAMMAR.parse(text, first=True)
    assert turn.action == Search(turn.action.block, turn.action.argument, "net  margin")
    assert text[slice(*turn.action.block)] == "<retrieval_page> net  margin </retrieval_page>"
    assert text[slice(*turn.action.argument)] == " net  margin "
    assert (turn.faults, turn.summary, turn.relevant) == ((), "s", ())
    assert [text[slice(*span)] for span in turn.notes] == ["s"]
    assert [text[slice(*span)] for span in turn.thoughts] == [FIRST[7:-8]]


@pytest.mark.parametrize(
    ("action", "kind", "read", "faults"),
    [
        ("\n<fetch_page>[3, 7]</fetch_page> ", Fetch, (3, 7), ()),
        # a fetch with strays is executed
        ("<fetch_page>[3, x, 7]</fetch_page>", Fetch, (3, 7), (Fault.FETCH_PAGES,)),
        ("<answer> \n</answer>", Answer, "", (Fault.ANSWER,)),
        ("I answer <answer>42</answer>", Answer, "42", (Fault.FRAME,)),
    ],
)
def test_later_turns(action, kind, read, faults):
    turn = acted(action)
    assert isinstance(turn.action, kind)
    assert (turn.action.pages if kind is Fetch else turn.action.text) == read
    assert (turn.faults, turn.relevant, turn.summary) == (faults, (3,), "s")


@pytest.mark.parametrize(
    ("thought", "faults"),
    [
        ("", {Fault.FRAME, Fault.BLOCKS}),
        (FIRST, {Fault.BLOCKS}),
        (LATER.replace("<analysis>a</analysis>", ""), {Fault.BLOCKS}),
        (LATER.replace("<analysis>a</analysis>", "<analysis>a</analysis>" * 2), {Fault.BLOCKS}),
        (LATER.replace("</think>", " so</think>"), {Fault.BLOCKS}),
        (LATER.replace(">a<", "> <"), {Fault.BLANK}),
        (LATER.replace("[3]", "[3, 4.5]"), {Fault.RELEVANT_PAGES}),
        ("<think></think>" + LATER, {Fault.FRAME}),
        ("<think>so</think>" + LATER, {Fault.FRAME, Fault.BLOCKS}),
        (LATER + "</think>", {Fault.FRAME}),
        (LATER.replace(">a<", "><b>bold</b> <answer>7</answer><"), set()),
    ],
)
def test_faults_of_a_thought_do_not_stop_the_action(thought, faults):
    turn = GRAMMAR.parse(thought + ANSWER)
    assert set(turn.faults) == faults
    assert isinstance(turn.action, Answer)
    assert turn.action.text == "42"


@pytest.mark.parametrize(
    ("text", "relevant", "summary"),
    [
        (
            "<think><relevant_pages>3, x 5</relevant_pages>text<summary> so far </summary></think>",
            (3, 5),
            "so far",
        ),
        # the lists are united, the last summary counts
        (
            LATER[:-8] + "<relevant_pages>9, 3</relevant_pages><summary>t</summary></think>",
            (3, 9),
            "t",
        ),
        # outside a closed thought there is nothing to keep
        ("<relevant_pages>[3]</relevant_pages><summary>s</summary>", (), ""),
        (LATER[:-8], (), ""),
    ],
)
def test_faulty_turns_keep_pages_and_summary(text, relevant, summary):
    turn = GRAMMAR.parse(text)
    assert isinstance(turn.action, Invalid)
    assert (turn.relevant, turn.summary) == (relevant, summary)
    assert Fault.BLOCKS in turn.faults


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", InvalidReason.NO_ACTION),
        (LATER[:-8], InvalidReason.NO_ACTION),
        (f"{LATER}<answer>42</answer>", InvalidReason.NO_ACTION),
        (f"<think>{ANSWER}</think>", InvalidReason.NO_ACTION),
        (f"{LATER}<action><answer>42</answer>", InvalidReason.UNCLOSED),
        (
            f"{LATER}<action><answer>1</answer><fetch_page>2</fetch_page></action>",
            InvalidReason.SEVERAL,
        ),
        (f"{LATER}{ANSWER}{ANSWER}", InvalidReason.SEVERAL),
        (f"{LATER}<action>{ANSWER}</action>", InvalidReason.SEVERAL),
        (
            f"{LATER}<action><answer><fetch_page>1</fetch_page></answer></action>",
            InvalidReason.NESTED,
        ),
        (
            f"{LATER}<action><retrieval_page> \n</retrieval_page></action>",
            InvalidReason.BAD_ARGUMENT,
        ),
        (f"{LATER}<action><fetch_page>three</fetch_page></action>", InvalidReason.BAD_ARGUMENT),
    ],
)
def test_invalid_actions(text, reason):
    turn = GRAMMAR.parse(text)
    assert isinstance(turn.action, Invalid)
    assert turn.action.reason is reason
    assert turn.action.detail
    assert Fault.ACTION in turn.faults


def test_text_behind_the_action_block_and_how_sampling_ended():
    assert GRAMMAR.parse(f"{LATER}{ANSWER} done").faults == (Fault.FRAME,)
    # behind the action a thought is no thought of this turn
    assert Fault.FRAME in GRAMMAR.parse(f"{ANSWER}{LATER}").faults
    cut = GRAMMAR.parse(LATER + ANSWER, StopCause.TRUNCATED)
    assert (cut.action.text, cut.faults) == ("42", (Fault.TRUNCATED,))
    assert GRAMMAR.parse(LATER, StopCause.TRUNCATED).action.reason is InvalidReason.TRUNCATED
    controlled = GRAMMAR.parse(LATER + ANSWER, StopCause.CONTROL_TOKEN)
    assert controlled.action.reason is InvalidReason.CONTROL_TOKEN


def test_ablations():
    none = DocVStarGrammar(fetch=False)
    fetch = f"{LATER}<action><fetch_page>3</fetch_page></action>"
    assert none.parse(fetch).action.reason is InvalidReason.NO_ACTION
    retrieve = f"{LATER}<action><retrieval_page>q</retrieval_page></action>"
    assert DocVStarGrammar(retrieval=False).parse(retrieve).action.reason is InvalidReason.NO_ACTION
    brief = DocVStarGrammar(analysis=False)
    assert brief.parse(LATER.replace("<analysis>a</analysis>", "") + ANSWER).faults == ()
    assert brief.parse(LATER + ANSWER).faults == (Fault.BLOCKS,)
    assert brief.parse(FIRST + ANSWER, first=True).faults == ()


TAGS = [
    "think",
    "action",
    "analysis",
    "plan",
    "relevant_pages",
    "summary",
    "retrieval_page",
    "fetch_page",
]
PIECES = [f"<{slash}{tag}>" for tag in (*TAGS, "answer") for slash in ("", "/")]
PIECES += ["[3]", "x", " ", "\n", "4 5", "<b>", "\x00", "\ud83d"]
BLANKS = st.sampled_from(["", " ", "\n\n"])
ACTS = st.sampled_from(
    ["<answer>a; b</answer>", "<fetch_page>1 2</fetch_page>", "<retrieval_page>q</retrieval_page>"]
)


def follows_the_rules(text, *, first):
    """Return whether a turn matches the specified grammar, as one regular expression."""
    second = "<plan>.+</plan>" if first else r"\s*<relevant_pages>[\[\]\s,\d]*</relevant_pages>\s*"
    acts = [
        "<retrieval_page>.+</retrieval_page>",
        r"<fetch_page>.*\d.*</fetch_page>",
        "<answer>.+</answer>",
    ]
    pattern = (
        rf"\s*<think>\s*<analysis>.+</analysis>\s*{second}\s*<summary>.+</summary>\s*</think>"
        rf"\s*<action>\s*(?:{'|'.join(acts)})\s*</action>\s*"
    )
    return re.fullmatch(pattern, text, re.DOTALL) is not None


@given(st.booleans(), BLANKS, ACTS, st.integers(0, 13), st.sampled_from(PIECES))
def test_a_piece_too_many(first, blank, act, place, piece):
    """A whole turn has no fault; with something more before a tag it follows the rules or has
    one.
    """
    text = (FIRST if first else LATER).replace(
        "><", f">{blank}<"
    ) + f"{blank}<action>{act}</action>"
    assert GRAMMAR.parse(text, first=first).faults == ()
    assert follows_the_rules(text, first=first)
    tags = re.split("(?=<)", text)
    more = "".join([*tags[:place], piece, *tags[place:]])
    turn = GRAMMAR.parse(more, first=first)
    assert turn.faults or follows_the_rules(more, first=first)
    assert list(turn.faults) == [fault for fault in Fault if fault in turn.faults]
    assert isinstance(turn.action, Invalid) == (Fault.ACTION in turn.faults)


@pytest.mark.parametrize(
    "piece", ["<think>", "</think>", "<action>", "<summary>", "<think></think>", LATER, ANSWER]
)
def test_long_turns_parse(piece):
    """Parsing takes linear time; otherwise these turns would take minutes."""
    for text in (piece * 3000, f"<think>{piece * 3000}</think><action>{piece * 3000}</action>"):
        assert GRAMMAR.parse(text).faults
