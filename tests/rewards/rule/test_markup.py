import pytest

from docagent_rl.rewards.rule.markup import BOLD, BOLD_END, BOX, BOX_END, bare, without_markup


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Lisbon", "Lisbon"),
        ("*Lisbon*", "Lisbon"),
        ("5 * 3 * 2", "5 * 3 * 2"),
        ("### Answer\n\nx", "Answer\n\nx"),
        ("Sum: 5\n#### 12", "Sum: 5\nAnswer: 12"),
        ("> Lisbon", "Lisbon"),
        ("> 12", "> 12"),
        ("As said:\n\n> 12", "As said:\n\n12"),
        ("```text\nx\n```", "\nx\n"),
        ("---\nx", "\nx"),
        ("[350](report.pdf#page=3)", "350"),
        ("x<br>y", "x\ny"),
        ("x<sup>1</sup>", "x"),
        ("<think>a</think>x", "x"),
        ("a</think>x", "x"),
        ("<|channel|>final<|message|>x<|return|>", "x"),
        ('{"answer": "x", "page": 3}', "x"),
        ('{"answer": ["x", "y"]}', "x; y"),
        ('{"answer": true}', "yes"),
        ("{'answer': 'x'}", "x"),
        ('{"page": 3}', '{"page": 3}'),
        ("{" * 500 + "}", "{" * 500 + "}"),
        ("$12$", "12"),
        ("$$12$$", "12"),
        ("$5 and $6", "$5 and $6"),
        ("$40-$50", "$40-$50"),
        ("\\(x\\)", "x"),
        ("\\[x\\]", "x"),
        ("$45\\%$", "45%"),
        ("$\\$12$", "$12"),
        ("\\text{x}", "x"),
        ("1{,}234", "1,234"),
        ("\\frac{1}{3}", "1/3"),
        ("25^\\circ C", "25\u00b0C"),
        ("\\geq 5", "\u22655"),
        ("a\\\\b", "a\nb"),
        ("\\alpha", " alpha "),
        ("a\ue000b", "ab"),
    ],
)
def test_plain(text, expected):
    assert without_markup(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "\\boxed{x}", "$\\boxed{x}$", "\\boxed{\\text{x}}", "\\[\\boxed{\\mathrm{x}}\\]",
        "\\fbox{x}",
        "\x08oxed{x}",
        "<answer>x</answer>", "<final_answer>x</final_answer>", "<|begin_of_box|>x<|end_of_box|>",
        "<think>a</think><answer>x</answer>",
    ],
)  # fmt: skip
def test_boxes_stand_between_signs(text):
    assert without_markup(text) == f"{BOX}x{BOX_END}"


@pytest.mark.parametrize(
    "text", ["**x**", "***x***", "__x__", "`x`", "<b>x</b>", "<strong>x</strong>"]
)
def test_bold_parts_stand_between_signs(text):
    assert without_markup(f"a {text} b") == f"a {BOLD}x{BOLD_END} b"
    assert bare(without_markup(text)) == "x"


def test_braces_that_do_not_match():
    assert bare(without_markup("\\boxed{x")) == "x"
    assert bare(without_markup("\\text{x}} y}")) == "x y"
