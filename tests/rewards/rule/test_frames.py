import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.rewards.rule.frames import unframe

FRAMES = [
    "{x}", "**Final Answer:** "
           "{x}", "Final Answer: {x}", "### Answer\n{x}", "## Final Answer\n\n{x}",
    "\\boxed{{x}}", "\\boxed{\\text{{x}}}", "$\\boxed{{x}}$", "{x} [7]", "{x} [1][2]", "{x} [1, 2]",
    "{x} (page 3)", "{x} (p. 3)", "{x}, as shown on page 3", "{x} [page 3]", "{x}【7\u2020source】",
    "{x}\n\nSource: page "
    "3", "Based on the provided document, the answer is {x}", "Sure! The answer is {x}",
    "Sure! {x}", "- {x}", "1. {x}", "According to the table on page 3, {x}",
    "Based on the image provided: {x}",
    "The answer to your question is "
    "{x}", "{x}\n\nLet me know if you need more.", "{x}\n\nI hope this helps!",
    "{x}\n\nExplanation: page 3 gives it.", "The table on page 3 gives it.\n\nAnswer: {x}",
    "Step 1: Read it.\nStep 2: Say it.\n\nFinal answer: "
    "{x}", "<think>It is on page 3.</think>\n\n{x}",
    "<answer>{x}</answer>", '{"answer": "{x}"}', "答案是{x}", "答案\uff1a{x}",
    "根据第3页的表格\uff0c答案是{x}", "Die Antwort lautet {x}",
    "La r\u00e9ponse est {x}", "Respuesta: {x}",
    "Seg\u00fan el documento, la respuesta es {x}", "\ub2f5: {x}", "{x} is the correct answer",
    "Final Answer: The final answer is ${x}$. I hope it is correct.",
]  # fmt: skip


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize(
    "answer", ["Paris", "350", "45%", "the finance committee", "3:1", "\u5317\u4eac"]
)
def test_a_frame_is_taken_off(frame, answer):
    assert unframe(frame.replace("{x}", answer)).text.strip(" .") == answer


@pytest.mark.parametrize(
    ("text", "left"),
    [
        # what denies or retracts an answer stays beside it
        ("The answer is not Paris", "not Paris"),
        ("It is false that the answer is Paris", "It is false that the answer is Paris"),
        ("not \\boxed{Paris}", "not  Paris"),
        ("\\boxed{Paris}. Actually, London", "Paris . Actually, London"),
        ("Paris [not in the table]", "Paris [not in the table]"),
        ("Paris\n\nNote: it is not Paris", "Paris\n\nNote: it is not Paris"),
        # two that differ announce nothing
        ("Answer: Paris\nAnswer: London", "Answer: Paris\nAnswer: London"),
        ("\\boxed{Paris} \\boxed{London}", "Paris   London"),
        # two that say the same announce it
        ("Answer: Paris\n\nFinal Answer: Paris.", "Paris."),
        ("\\boxed{Paris} or so said: \\boxed{Paris}", "Paris  or so said:  Paris"),
        # an answer that is nothing but frame or citation
        ("**Answer:**", ""),
        ("[7]", "[7]"),
        ("[1], [2]", "[1], [2]"),
        ("Based on the document", "Based on the document"),
        ("1. May 2019", "1. May 2019"),
    ],
)
def test_what_is_no_frame_stays(text, left):
    assert unframe(text).text == left


def test_places_stay_where_they_are_asked_for():
    assert unframe("Paris (page 3)", cites=False).text == "Paris (page 3)"
    assert unframe("page 3 [7]", cites=False).text == "page 3"
    assert unframe("page 3\npage 4", cites=False).text == "page 3\npage 4"


def test_the_one_bold_part_is_stressed():
    found = unframe("The company has **350** employees.")
    assert (found.text, found.stressed) == ("The company has 350 employees.", "350")
    assert found.rest.split() == ["The", "company", "has", "employees."]
    assert unframe("**Paris** or **London**").stressed == ""
    assert unframe("**Paris**.").stressed == ""


@given(st.text(max_size=80))
def test_any_text(text):
    assert isinstance(unframe(text).text, str)
