import ast
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.rewards.literals import MAX_CHARS, safe_literal


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("['a', \"b\"]", ["a", "b"]),
        (" (1, 2.5, -3, +4) ", (1, 2.5, -3, 4)),
        ("{'a': None, 1: True}", {"a": None, 1: True}),
        ("{1, 2}", {1, 2}),
        ("2020-2021", -1),
        (" \t18", 18),
        ("\n18\n", 18),
        ("2 * 3 + 10 / 4 - 7 // 2 % 2 ** 2", 5.5),
        ("[]", []),
        ("2 ** 64 + 99 + 2000", 2**64 + 2099),
        (f"{int(1e300)} + 0", int(1e300)),
        (f"0 + {int(1e300)}", int(1e300)),
        ("1" + " " * 9_999, 1),
    ],
)
def test_literals(text, value):
    assert safe_literal(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "", "list", "open('x')", "__import__('os').system('true')", "[x for x in "
                                                                    "(1,)]", "'a'.upper()",
        "a[0]",
        "lambda: 1", "1 if 1 else 2", "b'x'", "1j", "'a' * 3", "[1] + [2]", "9 ** 999", "1 / 0",
        "(-8) ** 0.5",
        "{[1]: 2}", "{**{}}", "{[]}", "['a'", "f'{1}'", "1 < 2", "not 1", "~1", "1 << 70", "\x00",
        "...",
        "(" * 3000 + ")" * 3000, "1e999 + 1", "2 ** 64 ** 64",
        "2 ** 65", "2 ** -65", "1.5e300 - 1", "1 - 1.5e300", "1" + " " * 10_000, "1 @ 2",
        "\n 18", "18 \n ", "((10 ** 64) ** 4) ** 64", "(10 ** 64) ** 5",
    ],
)  # fmt: skip
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError):
        safe_literal(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3 and 4", 4), ("0 and list", 0), ("[] or 'a' or list", "a"), ("~5", -6), ("10^3", 9),
        ("6 & 3 | 8 ^ 1", 11), ("[1 and 2, 3]", [2, 3]),
    ],
)  # fmt: skip
def test_logic_is_read_on_request(text, value):
    found = safe_literal(text, logic=True)
    assert found == eval(text) == value
    assert type(found) is type(value)
    with pytest.raises(ValueError, match="logic"):
        safe_literal(text)


@pytest.mark.parametrize(
    "text",
    [
        "3 and four", "1 in 5", "1 < 2", "not 1", "1 if 1 else "
                                                  "2", "~2.5", "2.5 & 1", "1 << 2", "{1} | {2}",
        "[1] + [2]", "'a' * 3",
    ],
)  # fmt: skip
def test_logic_that_is_refused(text):
    with pytest.raises(ValueError):
        safe_literal(text, logic=True)


def test_long_texts_are_refused():
    with pytest.raises(ValueError, match="characters"):
        safe_literal("[" + "1," * MAX_CHARS + "]")


numbers = st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner,
    max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(values)
def test_agrees_with_python_on_literals(value):
    text = repr(value)
    assert safe_literal(text) == ast.literal_eval(text) == value


@given(st.text(max_size=40))
def test_never_raises_anything_but_value_errors(text):
    for logic in (False, True):
        with contextlib.suppress(ValueError):
            safe_literal(text, logic=logic)
