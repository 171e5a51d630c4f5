from __future__ import annotations

import dataclasses

import pytest

from docagent_rl.envs.services import EnvServices, RetrieverService
from docagent_rl.rewards.rule_judge import RuleJudge
from docagent_rl.rollout.playability import Playability, listed
from docagent_rl.systems import SYSTEMS, get_system

CHANGES = {
    "as it is": {},
    "no evidence": {"evidence_pages": (), "evidence_boxes": {}},
    "unanswerable": {"evidence_pages": (), "evidence_boxes": {}, "answers": (), "answerable": False},
    "no answer": {"answers": (), "answerable": None},
    "no document": {"doc_id": "none"},
    "beyond the end": {"evidence_pages": (999,), "evidence_boxes": {}},
    "no flags": {"extra": {"crop_required": []}},
    "no window": {"extra": {"window": [7, 3]}},
}


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("validate", [False, True])
async def test_what_is_said_is_what_the_environment_does(name, validate, world):
    """`reset` of the environment, which a trajectory calls, is the truth."""
    system = get_system(name)
    config = system.parse_config(system.small)
    services = EnvServices(world.store, RetrieverService(world.retriever), RuleJudge())
    check = Playability(system, config, services)
    for changes in CHANGES.values():
        sample = dataclasses.replace(world.samples[0], **changes)
        env = system.make_env(config, services, validate=validate)
        try:
            await env.reset(sample)
            expected = None
        except Exception as error:  # whatever a trajectory would raise is what the check has to foresee
            expected = str(error)
        assert check.problem(sample, validate=validate) == expected, changes


def test_long_lists_are_cut():
    assert listed(["a", "b"]) == "a\n  b"
    assert listed([str(n) for n in range(12)]).endswith("9\n  and 2 more")
