"""Trajectories said again, in the same environment and in others."""

from __future__ import annotations

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.lab.agents.run_folder import RunFolder
from docagent_rl.lab.agents.runner import Runner, RunSettings
from docagent_rl.lab.agents.scripted import Detours, ScriptPlayer
from docagent_rl.lab.agents.texts import ReplayPlayer
from tests.lab.agents.stage import resources, timeless

PLAYED = 4


@pytest.fixture(scope="module")
async def recorded(world, tmp_path_factory):
    player = ScriptPlayer(resources(world, "vrag_rl"), Detours(malformed=0.3), seed=2)
    folder = RunFolder(tmp_path_factory.mktemp("recorded") / "run")
    folder.begin({"player": dict(player.identity)})
    await Runner(player, "vrag_rl", folder, RunSettings(trajectories=2)).run(world.samples[:PLAYED])
    return folder


async def again(world, recorded, **more):
    """Recorded trajectories, and the same ones said again in an environment."""
    player = ReplayPlayer(resources(world, "vrag_rl", **more), recorded.path)
    old = {(t.uid, t.number): t for t in recorded.trajectories()}
    for sample in world.samples[:PLAYED]:
        for trajectory in range(2):
            yield old[sample.question_id, trajectory], await player.play(sample, trajectory)


async def test_the_same_environment_gives_the_same_trajectory(world, recorded):
    async for old, new in again(world, recorded):
        told = {name: new.metrics.pop(name) for name in list(new.metrics) if name.startswith("replay/")}
        assert timeless(new) == timeless(old)
        assert (told["replay/same"], told["replay/alike_turns"]) == (1, len(new.turns))
        assert (told["replay/unsaid_turns"], told["replay/reward_change"]) == (0, 0)


async def test_another_reward_and_the_turn_where_another_environment_departs_are_told(world, recorded):
    async for old, new in again(world, recorded, env={"variant": "released"}):
        assert new.metrics["replay/reward_change"] == pytest.approx(new.reward - old.reward)
    _, new = await anext(again(world, recorded, env={"search": {"pages_per_search": 2}}))
    assert new.metrics["replay/same"] == 0
    assert new.metrics["replay/alike_turns"] < len(new.turns)


async def test_a_sample_that_ends_early_ends_the_trajectory(world, recorded, tmp_path):
    (first, *_) = recorded.trajectories()
    first.turns = first.turns[:1]
    (tmp_path / "cut.jsonl").write_text(first.to_json() + "\n")
    new = await ReplayPlayer(resources(world, "vrag_rl"), tmp_path / "cut.jsonl").play(world.samples[0], 0)
    assert (new.end, new.status, len(new.turns)) == ("context_full", "unfinished", 1)


async def test_what_was_not_recorded_cannot_be_played(world, recorded, tmp_path):
    shared = resources(world, "vrag_rl")
    player = ReplayPlayer(shared, recorded.path)
    for number, trajectory in ((0, 2), (PLAYED, 0)):
        with pytest.raises(UserError, match=world.samples[number].question_id):
            await player.play(world.samples[number], trajectory)
    for source, name in ((tmp_path, tmp_path.name), (tmp_path / "gone.jsonl", r"gone\.jsonl")):
        with pytest.raises(UserError, match=name):
            ReplayPlayer(shared, source)
