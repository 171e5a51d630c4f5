"""Every system is played on the window of a question, and on nothing else of its document."""

import dataclasses

import pytest

from docagent_rl.lab.agents.scripted import ChancePlayer, ScriptPlayer
from docagent_rl.lab.eval.scoring.played import read_trajectory
from docagent_rl.lab.eval.scoring.protocols import navigation_values
from docagent_rl.systems import SYSTEMS
from tests.lab.agents.stage import resources


@pytest.fixture
def windowed(world):
    """A question about all but the ends of a document, with evidence on its first two pages."""

    def length(sample):
        return world.store.document(sample.doc_id).num_pages

    longest = max(world.samples, key=length)
    extra = {"window": [2, length(longest) - 1]}
    return dataclasses.replace(longest, evidence_pages=(1, 2), evidence_boxes={}, extra=extra)


@pytest.mark.parametrize("system", sorted(SYSTEMS))
async def test_no_system_shows_or_counts_a_page_outside(world, windowed, system):
    shared = resources(world, system, judge={"kind": "anls"})
    oracle = await ScriptPlayer(shared).play(windowed, 0)
    chance = [await ChancePlayer(shared).play(windowed, number) for number in range(6)]
    first, last = windowed.extra["window"]
    for trajectory in (oracle, *chance):
        assert not trajectory.masked, trajectory.error
        played = read_trajectory(trajectory)
        brought = {*played.collected, *(page for tool in played.by_tool.values() for page in tool)}
        numbers = {page for doc_id, page in brought if doc_id == windowed.doc_id}
        assert numbers <= set(range(first, last + 1))
    # page 2 is all the evidence that there is
    assert oracle.metrics["retrieval_recall"] == 1.0
    assert navigation_values(windowed, read_trajectory(oracle))["page_recall"] == 1.0
