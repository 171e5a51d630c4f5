import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.rewards.answer_kinds import AnswerKind, IdentifierRule, fold_kind, kind_of, norm_id

KINDS = {
    AnswerKind.EMAIL: ["a.b@c.org", "Info@Example.CO.UK "],
    AnswerKind.URL: ["https://x.org/", "HTTP://X.org/a?b=c", "www.x.org", "report.PDF",
    "a-b_c.tar.gz"],
    AnswerKind.DATE: [
        "2019", "1500", "12/05/2019", "2019-05-12", "05.12.2019", "5/12", "05/2019", "2019-05",
        "March 3, 2019", "3 march 2019", "3rd of March, 2019", "Mar. 3", "march 2019",
        "Monday, March 3, 2019", "2015\u20132016", "2015-16", "2015 to 2019", "10:30",
        "9:05 a.m.", "23:59:59",
    ],
    AnswerKind.PHONE: [
        "555-1234", "+1 (415) 555-0123", "+14155550123", "555.1234", "123-45-6789", "01 23 45 67 "
                                                                                    "89",
    ],
    AnswerKind.COUNT: [
        "0", "14,250", "14 250", "1'000", "-5", "+5", "\u22125", "Twelve", "zero", "14155550123",
    ],
    AnswerKind.NUMBER: [
        "3.50", "12%", "12 per cent", "$3.50", "$ 14,250.00", "EUR 12", "12 \u20ac", "US$5", "-$5",
        ".5",
        "1234567.89", "0.1234567",
    ],
    AnswerKind.TEXT: [
        "", "blue", "may", "twenty-one", "1990s", "$3.5 million", "3-5", "No. 5", "5.", "a@b",
        "x.final",
        "5 apples", "www.", "1,23", "--5", "+-$5", "c", "555-12a4", "not 5",
        "1234 5678 9012 3456", "1+4155550123",
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind, texts in KINDS.items() for text in texts]
)
def test_kinds(kind, text):
    assert kind_of(text) is kind


def test_the_rule_of_the_paper_knows_four_kinds():
    for kind, texts in KINDS.items():
        named = kind in (AnswerKind.EMAIL, AnswerKind.DATE, AnswerKind.PHONE, AnswerKind.COUNT)
        for text in texts:
            assert kind_of(text, IdentifierRule.PAPER) is (kind if named else AnswerKind.TEXT)


@pytest.mark.parametrize(
    ("gold", "same", "other"),
    [
        ("a@b.org", ["A@B.org "], ["a@b.or", "mail a@b.org"]),
        ("https://x.org/a/", ["https://x.org/a", "HTTPS://x.org/a"], ["https://x.org", "x.org/a"]),
        ("March 3, 2019", ["march 3 2019", "March  3,2019"], ["March 4, 2019", "3 March 2019"]),
        ("2015\u20132016", ["2015-2016", "2015 - 2016"], ["2015", "2015-2017"]),
        ("1500", ["1,500", "1 500"], ["1501", "15,00"]),
        ("10:30 a.m.", ["10:30am", "10:30 AM"], ["10:30", "10:30 pm"]),
        (
            "+1 (415) 555-0123",
            ["+14155550123", "+1 415.555.0123"],
            ["14155550123", "+1 (415) 555-0124"],
        ),
        ("555-1234", ["555 1234", "5551234", "(555) 1234"], ["not 555-1234", "555-12345"]),
        ("1 234 567", ["1,234,567", "1234567"], ["1234568"]),
        ("14,250", ["14250", "14 250"], ["14,350", "14.250", "-14250", "1,4250", "14,250 people"]),
        ("Twelve", ["12", "twelve"], ["twelve people", "13"]),
        ("-5", ["\u22125", "- 5"], ["5"]),
        ("$3.50", ["3.5", "3.50", "\u20ac3.5", "3.5%"], ["3.05", "35", "$3.5 million"]),
        ("12%", ["12", "12.0 percent", "12.00"], ["12.1", "1.2"]),
        ("$14,250.00", ["14250", "$14,250"], ["14,25", "1425"]),
    ],
)
def test_norm_id(gold, same, other):
    kind = kind_of(gold)
    assert kind is not AnswerKind.TEXT
    for text in [gold, *same]:
        assert norm_id(kind, text) == norm_id(kind, gold)
    for text in other:
        assert norm_id(kind, text) != norm_id(kind, gold)


@given(st.text(max_size=40))
def test_every_text_equals_itself_however_it_is_cased_or_spaced(text):
    kind = kind_of(text)
    assert kind_of(f" {text}\n") is kind
    assert norm_id(kind, f"\t{text} ") == norm_id(kind, text)
    assert kind_of(fold_kind(text)) is kind_of(text)


@given(st.integers(0, 10**14))
def test_counts_match_themselves_only(number):
    kind = kind_of(f"{number:,}")
    assert norm_id(kind, f"{number}") == norm_id(kind, f"{number:,}")
    assert norm_id(kind, f"{number + 1:,}") != norm_id(kind, f"{number:,}")


def test_long_texts():
    """Matching takes linear time: a pattern that backtracks over these would take hours."""
    for text in (
        "1,", "1 ", "b.", "1", " ", "(", "-", "1 111", "$", "x.", "+", "march ", "2019-", "10:30",
        "a@", "'",
        "www.",
    ):  # fmt: skip
        for whole in (text * 5_000, "1" + text * 5_000 + "x", "a@" + text * 5_000):
            norm_id(kind_of(whole), whole)
            for kind in AnswerKind:
                norm_id(kind, whole)
