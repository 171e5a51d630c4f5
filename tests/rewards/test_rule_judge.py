import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.rewards.rule_judge import LikenessJudge, RuleJudge
from docagent_rl.rewards.text import NOT_ANSWERABLE, anls, exact_match, token_recall
from tests.rewards.adversary import attempts, framed_attempts, wins
from tests.rewards.judge_pairs import Trap, read_pairs, table, wrong

# words that the judge treats in a way of their own
CANDIDATES = ["Paris", "Jane Roe", "Appendix B", "Vitamin C", "marketing", "wind power", "AB-1234"]
SPELLINGS = [
    ["kg", "kilograms", "kilogram"], ["km", "kilometres", "kilometers"], ["GB", "gigabytes"],
    ["hours", "hrs", "h"], ["%", "percent", "per cent"], ["km/h", "kilometers per hour"],
    ["USD", "dollars", "US dollars"], ["EUR", "euros"], ["m\u00b2", "square meters", "m^2", "sq m"],
    ["\u00b0C", "degrees Celsius"], ["V", "volts"],
]  # fmt: skip
HOSTILE_PIECES = [
    "1,111", ",111", "one hundred and ", "1 to ", "jan 1 ", "km/", "not ", "A ", "(", "**", "$1",
    "\\boxed{",
    "www.", "a@", "e\u0301", "\ud800", "from 1 ", "n", " ", "-", "Paris, ",
]  # fmt: skip


def judged(references, prediction, judge=None, question="?"):
    references = [references] if isinstance(references, str) else references
    return asyncio.run((judge or RuleJudge()).judge(question, references, prediction))


@pytest.mark.parametrize(
    ("reference", "prediction", "right"),
    [
        ("Lisbon", "The answer is Lisbon, on page 3", True),
        ("12", "It was twelve", True),
        ("yes", "Yes, it did, with delay", True),
        ("Lisbon", "Porto", False),
        ("Lisbon", "not Lisbon", False),
        ("Lisbon", "Lisbon " + "Porto Madrid Rome Paris " * 5, False),
        ("?", "", False),
        ("", "", False),
        ("True", "Yes", True),
        ("False", "Yes", False),
        ("red; red fox", "red fox, red", True),
        ("red; blue;", "blue, red", True),
        ("10 MW and 5 km", "10 mW and 5 km", False),
        ("Red Fox", "Red Arctic Fox", False),
        ("page 12", "page 12", True),
        ("12", "page 12", False),
        ("03/04/2021", "3 April 2021", True),
        ("3 April 2021", "03/04/2021", False),
        ("5", "5 May", False),
        ("13", "pages 12-13", False),
        ("A", "Figure 3a", False),
        ("5", "5 pp", False),
        ("Section 3.2", "Section 3.2-3.4", False),
        ("Dr. Roe", "Roe", True),
        ("12 kg", "12", False),
        ("13 kg", "13 kg, table 12 kg", False),
        ("dog", "A dog.", True),
        ("B", "A/B", False),
    ],
)
def test_answers_that_are_no_labelled_pair(reference, prediction, right):
    assert judged(reference, prediction) == float(right)


@pytest.mark.parametrize(
    ("reference", "prediction", "question", "right"),
    [
        ("Appendix A", "A", "Which appendix lists the suppliers?", True),
        ("12", "12 kg", "How many kg?", True),
        ("12 kg", "12", "What is it in kg?", True),
        ("30 minutes", "30 hours", "How many minutes are there in some hours?", False),
        ("12 hours", "12 GB", "How many hours did the 30 GB download take?", False),
        ("13 kg", "13 kg, table 12 kg", "How many kg?", False),
        ("3.2", "3.20", "Which section is it?", False),
        ("7.5", "7.50", "What is the rate?", True),
        ("June 2010", "June 2010, 12 May 1999", "Is it June 2010 or 12 May 1999?", False),
    ],
)
def test_what_a_question_names_may_be_left_out_or_added(reference, prediction, question, right):
    assert judged(reference, prediction, question=question) == float(right)


ASKED = "How many employees are there, and is the product certified?"
FRAMED = [
    ("350", "**Final Answer:** 350"), ("350", "Final Answer: 350"), ("350", "Final answer: 350"),
    ("Paris", "### Answer\nParis"), ("350", "\\boxed{\\text{350}}"), ("Paris",
    "\\boxed{\\text{Paris}}"),
    ("350", "$\\boxed{350}$"), ("350", "350 [7]"), ("Paris", "Paris [1][2]"), ("Paris",
    "Paris (page 3)"),
    ("350", "Based on the provided document, the answer is "
            "350."), ("350", "Sure! The answer is 350."),
    ("Paris", "From the image, I can see that it is "
              "Paris."), ("350", "The company has 350 employees"),
    ("350", "The company has **350** "
            "employees."), ("350", "There are 350 employees."), ("350", '"350"'),
    ("350", "`350`"), ("350", "- 350"), ("\u5317\u4eac", "\u7b54\u6848\u662f\u5317\u4eac\u3002"),
    ("350", "According to the table on page 3, the company has 350 employees."),
    ("350", "350. Let me know if you need anything "
            "else!"), ("350", "<think>Page 3 has it.</think>\n\n350"),
    ("1.234,56", "1,234.56"), ("12,5 %", "12.5%"), ("3:1", "3 : 1"),
    ("10-20", "**Answer:** from 10 to 20 [2]"),
    ("2019", "2019\u5e74"), ("45%", "\u767e\u5206\u4e4b\u56db\u5341\u4e94"),
    ("1.2\u4ebf\u5143", "1.2 \u4ebf\u4eba\u6c11\u5e01"),
    ("yes", "**Final Answer:** Yes"), ("no", "The answer is no."),
    ("\u662f", "\u7b54\u6848\u662f\uff1a\u662f\u7684"),
    ("yes", "Yes, the fee was paid."), ("no", "No, the product is not certified."),
    ("Not answerable", "Unfortunately, the document does not mention this."),
]  # fmt: skip
"""Right answers as models write them."""

UNFRAMED = [
    ("Paris", "outside Paris"), ("2019", "before 2019"), ("12 May 2019", "after 12 May 2019"),
    ("45%", "after 45%"),
    ("Jane Roe", "Jane Roe's director"), ("Jane Roe", "the director of Jane Roe"),
    ("5 years", "5 years before"),
    ("5 years", "5 years ago"), ("2019", "The plant opened before 2019."), ("45%", "more than 45%"),
    ("45%", "\\boxed{> 45\\%}"), ("45%", "**Final Answer:** not 45%"), ("45%", "\u5c11\u4e8e45%"),
    ("Paris", "maybe Paris"), ("Paris", "It could be Paris."), ("350", "350 kg"),
    ("350", "350 fewer employees"),
    ("350", "The company has 350 employees, 20 of them in "
            "Oslo"), ("350", "half of 350"), ("350", "350 etc."),
    ("350", "The company does not have 350 employees"), ("350", "the rival of 350"),
    ("B-350", "350 employees"),
    ("350", "It has 350 xyz"), ("350", "350-year plan"), ("Paris", "The rival of **Paris**"),
    ("yes", "Indeed not"), ("yes", "Yes in 1990, revoked "
                                   "since"), ("yes", "Yes, but it was revoked"),
    ("yes", "The answer is not yes"), ("no", "No problem, it is certified"),
    ("no", "No doubt it is certified"),
    ("no", "The answer is no is wrong."), ("no", "No. The product is certified."), ("no", "No. 5"),
    ("no", "\u6ca1\u9519"), ("250 employees", "250 machines"), ("10 MW", "10 mW"),
]  # fmt: skip
"""Wrong answers that look right."""


@pytest.mark.parametrize(("reference", "prediction"), FRAMED)
def test_an_answer_is_taken_out_of_its_frame(reference, prediction):
    assert judged(reference, prediction, question=ASKED) == 1.0


@pytest.mark.parametrize(("reference", "prediction"), UNFRAMED)
def test_what_is_said_of_an_answer_is_not_the_answer(reference, prediction):
    assert judged(reference, prediction, question=ASKED) == 0.0


HOSTILE = [
    ("Paris", "in Paris in London in Rome", ""),
    ("Paris", "It is Paris. It is London.", ""),
    ("Paris", "London (Paris)", ""),
    ("Paris", "ParisLondon", ""),
    ("Paris", "It was Paris until 1999", ""),
    ("Paris", "The previous capital was Paris", "What is the capital?"),
    ("Paris", "a city that is Paris's rival", ""),
    ("Paris", "Paris is out of the question", ""),
    ("12", "12 as well as 13", ""),
    ("12", "12...13", ""),
    ("12", "page 12 of 14 on table 15", "How many?"),
    ("12", "12 million", ""),
    ("12", "12th", "How many?"),
    ("12", "over 12", ""),
    ("12", "at least 12", ""),
    ("12", "up to 12", ""),
    ("yes", "yes if no", ""),
    ("yes", "No, I mean yes", ""),
    ("2019", "2019-2020", ""),
    ("B", "a b c d", ""),
    ("red; blue", "the colours are red, blue, green, yellow", "Which colours?"),
    ("Not answerable", "I don't know: Paris", ""),
    ("Not answerable", "it is the finance department, not mentioned", ""),
    ("Q1", "first or second quarter", "In which quarter?"),
    ("London", "London Paris", "Which is larger, London or Paris?"),
    ("Jane Roe", "brother of Jane Roe", ""),
    ("3 April 2021", "03/04/2021", ""),
    ("5", "5 m", "How many kg?"),
    ("3", "three thousand", ""),
    ("3.5 million", "3.5 thousand", "Which unit cost most?"),
    ("unknown land", "Not answerable: unknown land", "Which section describes Not answerable?"),
]
"""Found by trying to be paid without knowing; the pairs that the judge is measured on stand
elsewhere.
"""


@pytest.mark.parametrize(("reference", "prediction", "question"), HOSTILE)
def test_tricks_are_not_paid(reference, prediction, question):
    assert judged(reference, prediction, question=question) == 0.0


PAIRS = read_pairs()
DOCUMENTATION = Path(__file__).parents[2] / "docs" / "rule_judge.md"


def test_the_labelled_pairs_are_judged_as_the_documentation_says():
    assert table(PAIRS) in DOCUMENTATION.read_text(), "\n".join(
        [table(PAIRS), *map(str, wrong(PAIRS))]
    )


@pytest.mark.parametrize("trap", list(Trap))
def test_no_trap_is_paid(trap):
    pairs = [pair for pair in PAIRS if pair.trap is trap]
    assert len(pairs) >= 40
    assert [str(pair) for pair in wrong(pairs)] == []


def test_labels_hold_no_contradiction():
    assert all(not (pair.right and pair.trap) for pair in PAIRS)
    assert len({(pair.gold, pair.said, pair.question) for pair in PAIRS}) == len(PAIRS)
    assert 0.4 < sum(pair.right for pair in PAIRS) / len(PAIRS) < 0.6


@pytest.mark.slow(first=True)
def test_no_text_wins_for_two_golds():
    found = asyncio.run(wins(RuleJudge(), attempts(5_000, seed=11)))
    assert [str(each) for each in found] == []


@pytest.mark.slow
def test_no_wrong_answer_wins_in_a_frame():
    found = asyncio.run(wins(RuleJudge(), framed_attempts(2_500, seed=11)))
    assert [str(each) for each in found] == []


def test_limits():
    """Answers of more than 2000 characters are right only if they equal the reference."""
    assert judged("Lisbon", "Lisbon." + " " * 1993) == 1.0
    assert judged("Lisbon", "Lisbon." + " " * 1994) == 0.0


@given(st.text(max_size=80), st.text(max_size=80), st.text(max_size=80))
@settings(deadline=None)
def test_any_text(reference, prediction, question):
    assert judged(reference, prediction, question=question) in (0.0, 1.0)
    if reference.strip():
        assert judged(reference, reference, question=question) == 1.0


@given(st.integers(-(10**9), 10**9), st.integers(0, 3))
@settings(deadline=None)
def test_the_form_of_a_number_does_not_matter(number, zeros):
    forms = [
        f"{number}",
        f"{number:,}",
        f"{number:,}".replace(",", " "),
        f"{number}." + "0" * zeros if zeros else f"{number}.",
    ]
    for form in forms:
        assert judged(f"{number:,}", form) == 1.0
        assert judged(form, f"The answer is {number}.") == 1.0
        assert judged(form, f"{number + 1:,}") == 0.0


@given(st.integers(1, 9999), st.sampled_from(SPELLINGS), st.data())
@settings(deadline=None)
def test_spellings_of_a_unit_are_the_same_both_ways(number, spellings, data):
    one, other = data.draw(st.sampled_from(spellings)), data.draw(st.sampled_from(spellings))
    assert judged(f"{number} {one}", f"{number} {other}") == 1.0
    assert judged(f"{number} {other}", f"{number} {one}") == 1.0


@given(st.integers(2, 9999), st.permutations([spellings[0] for spellings in SPELLINGS]))
@settings(deadline=None)
def test_another_unit_is_another_amount(number, units):
    assert judged(f"{number} {units[0]}", f"{number} {units[1]}") == 0.0


@given(
    st.sampled_from(CANDIDATES),
    st.sampled_from(
        ["not {}", "anything but {}", "It isn't {}.", "{} is wrong", "{}? No.", "never {}"]
    ),
)
@settings(deadline=None)
def test_a_denial_never_wins(name, denial):
    assert judged(name, denial.format(name)) == 0.0


@pytest.mark.parametrize("piece", HOSTILE_PIECES)
def test_a_long_answer_is_judged(piece):
    """Judging takes bounded time: a pattern that backtracks over these would take minutes."""
    said = piece * (100_000 // len(piece))
    for reference in ("Paris", "5 kg", NOT_ANSWERABLE, "yes", "one; two", "WHO", said[:1900]):
        assert judged(reference, said + "x", question=said[:3000] + "?") in (0.0, 1.0)
        judged(reference, said[:1990] + "x", question=said[:3000] + "?")


@pytest.mark.parametrize("likeness", [exact_match, anls, token_recall])
def test_the_likest_reference_counts(likeness):
    """The best reference counts; `test_text` tests the similarities themselves."""
    judge = LikenessJudge(likeness)
    assert judged(["zzz", "Lake Ontario"], "lake ontario", judge) == 1.0
    assert judged([], "a", judge) == 0.0
    asyncio.run(judge.check())
