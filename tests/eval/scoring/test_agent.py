from __future__ import annotations

import pytest

from docagent_rl.eval.scoring.agent import agent_of, extractor_of, first, model_name
from docagent_rl.eval.scoring.experts import Author


@pytest.mark.parametrize(
    ("manifest", "name"),
    [
        ({"player": {"model": "m"}}, "m"),
        ({"player": {"player": "chat", "model": {"model": "org/m", "temperature": 0}}}, "m"),
        ({"player": {"player": "engine", "model": {"path": "/x/step_3", "sha256": "a"}}}, "step_3"),
        ({"player": {"player": "scripted"}}, "scripted"),
        ({"player": "chance"}, "chance"),
        ({"model": "n"}, "n"),
        ({"player": {"model": 7}}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_who_played_is_named_by_the_manifest(manifest, name):
    assert agent_of(manifest) == name


@pytest.mark.parametrize(
    ("manifest", "name"),
    [
        ({}, Author.SYSTEM.value),
        ({"docagent": {"roles": {"extractor": {"backend": "openai", "model": "Qwen/Q"}}}}, "Qwen/Q"),
        ({"config": {"docagent": {"roles": {"extractor": {"base_url": "http://x", "model": "m"}}}}}, "m"),
        ({"docagent": {"roles": {"extractor": {"backend": "embedded", "model": "m"}}}}, Author.RULE.value),
        ({"docagent": {"roles": {"extractor": {"backend": None, "base_url": None}}}}, Author.RULE.value),
        ({"docagent": {"roles": {}}}, Author.RULE.value),
        ({"docagent": {"roles": 3}}, Author.RULE.value),
    ],
)
def test_a_rule_that_stands_in_for_the_systems_extractor_is_told(manifest, name):
    assert extractor_of(manifest) == name


def test_the_model_is_the_players_and_not_another_roles():
    manifest = {
        "judge": {"model": "j"},
        "player": {"environment": {"retriever": {"model": "r"}}, "model": "m"},
    }
    assert model_name(manifest) == "m"
    assert first(manifest, "retriever") == {"model": "r"}
    assert first(manifest, "nothing") is None
