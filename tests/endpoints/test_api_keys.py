from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.base.errors import UserError
from docagent_rl.endpoints.http_client import HIDDEN, NO_KEY, read_api_key, redacted, without_key


@pytest.mark.parametrize("value", ["sk-1", " sk-1\r\n"])
def test_keys_come_from_the_environment(monkeypatch, value):
    monkeypatch.setenv("SOME_KEY", value)
    assert read_api_key("SOME_KEY", "judge.api_key_env") == "sk-1"
    assert read_api_key(None, "judge.api_key_env") == NO_KEY


@pytest.mark.parametrize("value", [None, ""])
def test_a_missing_key_names_setting_and_variable(monkeypatch, value):
    monkeypatch.delenv("SOME_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("SOME_KEY", value)
    with pytest.raises(UserError, match=r"roles\.reader\.api_key_env.*SOME_KEY"):
        read_api_key("SOME_KEY", "roles.reader.api_key_env")


@pytest.mark.parametrize("key", ["sk-very\nsecret", "sk-\x1bsecret", "sk-sécret", "sk-\udcffsecret"])
def test_a_key_that_no_header_could_carry_is_refused_without_being_told(monkeypatch, key):
    monkeypatch.setenv("SOME_KEY", key)
    with pytest.raises(UserError, match="SOME_KEY") as refused:
        read_api_key("SOME_KEY", "judge.api_key_env")
    assert "secret" not in str(refused.value)


KEY = "sk-Very/Secret+0123456789abcdef"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"Incorrect API key provided: {KEY}. Ask", f"Incorrect API key provided: {HIDDEN}. Ask"),
        (KEY.upper() + KEY.lower(), HIDDEN),
        (f"key {KEY[:12]}...{KEY[-8:]}", f"key {HIDDEN}...{HIDDEN}"),
        ("sk-Very*****cdef", "sk-Very*****cdef"),
    ],
)
def test_a_key_is_taken_out(text, left):
    assert redacted(text, KEY) == left


@given(st.text(), st.integers(0, 5), st.text())
def test_no_telling_piece_of_a_key_is_left(before, shift, after):
    packed = base64.b64encode(b"x" * shift + KEY.encode()).decode()
    left = redacted(f"{before}{KEY}{after}{packed}{before}", KEY)
    assert not [n for n in range(len(KEY) - 7) if KEY[n : n + 8].lower() in left.lower()]
    assert packed[8:-4] not in left
    assert HIDDEN in left


def test_short_keys_and_no_key():
    assert redacted("EMPTY is no key", "EMPTY") == f"{HIDDEN} is no key"
    assert redacted("empty is a word", "EMPTY") == "empty is a word"
    assert redacted("none", NO_KEY) == "none"
    assert without_key("EMPTY none", "EMPTY") == "EMPTY none"
    assert without_key(f"it is {KEY}!", KEY) == f"it is {HIDDEN}!"
