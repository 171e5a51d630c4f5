from __future__ import annotations

import pytest

from docagent_rl.api_keys import NO_KEY, read_api_key
from docagent_rl.errors import UserError


def test_keys_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("SOME_KEY", "sk-1")
    assert read_api_key("SOME_KEY", "judge.api_key_env") == "sk-1"
    assert read_api_key(None, "judge.api_key_env") == NO_KEY


@pytest.mark.parametrize("value", [None, ""])
def test_a_missing_key_names_setting_and_variable(monkeypatch, value):
    monkeypatch.delenv("SOME_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("SOME_KEY", value)
    with pytest.raises(UserError, match=r"roles\.reader\.api_key_env: the environment variable SOME_KEY"):
        read_api_key("SOME_KEY", "roles.reader.api_key_env")
