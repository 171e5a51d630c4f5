from __future__ import annotations

import pytest

from docagent_rl.eval.scoring.agent import agent_of, extractor_of
from docagent_rl.eval.scoring.experts import Author

RETRIEVER = {"retriever": {"model": "r"}}


@pytest.mark.parametrize(
    ("manifest", "name"),
    [
        ({"player": {"player": "chat", "model": {"model": "org/m", "temperature": 0}}}, "m"),
        ({"player": {"player": "engine", "model": {"path": "/x/step_3", "sha256": "a"}}}, "step_3"),
        ({"player": {"player": "scripted"}}, "scripted"),
        ({"player": "chance"}, "chance"),
        ({"model": "n"}, "n"),
        ({"player": {"model": 7}}, "unknown"),
        # the model is the player's and not another role's
        ({"judge": {"model": "j"}, "player": {"environment": RETRIEVER, "model": "m"}}, "m"),
        ({"recipe": "x", "player": {"player": "oracle", "environment": RETRIEVER}}, "oracle"),
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
        ({"docagent": {"roles": 3}}, Author.RULE.value),
    ],
)
def test_a_rule_that_stands_in_for_the_systems_extractor_is_told(manifest, name):
    assert extractor_of(manifest) == name
