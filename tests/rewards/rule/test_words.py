import pytest

from docagent_rl.rewards.rule.words import fold, root, stem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\u0661\u0662", "12"),
        ("\u2460\u2461", " 1  2 "),
        ("\u22125", "-5"),
        ("Jos\u00e9", "Jose"),
        ("m\u00b2", "square m"),
        ("10\u00b2", "10^2"),
        ("1\u00bd", "1 1/2"),
        ("Lis\u200bbon", "Lisbon"),
        ("- Oslo\n- Bergen", "Oslo\nBergen"),
        ("\u0915\u093f", "\u0915\u093f"),
        ("\u0301a", "\u0301a"),
        ("1\u0301", "1\u0301"),
    ],
)
def test_fold(text, expected):
    assert fold(text) == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("Cities", "city"),
        ("boxes", "box"),
        ("glass", "glass"),
        ("Dept", "department"),
        ("does", "does"),
        ("companies", "company"),
        ("rise", "rise"),
    ],
)
def test_stem(word, expected):
    assert stem(word) == expected


def test_tenses_have_one_root():
    assert root("increase") == root("increased") == root("increasing")
    assert root("used") == "used"
