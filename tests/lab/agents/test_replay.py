"""Sessions said again, in the same environment and in others."""

from __future__ import annotations

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.lab.agents.replay import ReplayPlayer
from docagent_rl.lab.agents.run_folder import RunFolder
from docagent_rl.lab.agents.runner import Runner, RunSettings
from docagent_rl.lab.agents.scripted import Detours, ScriptPlayer
from tests.lab.agents.stage import resources, timeless

PLAYED = 4


@pytest.fixture(scope="module")
async def recorded(world, tmp_path_factory):
    player = ScriptPlayer(resources(world, "vrag_rl"), Detours(malformed=0.3), seed=2)
    folder = RunFolder(tmp_path_factory.mktemp("recorded") / "run")
    folder.begin({"player": dict(player.identity)})
    await Runner(player, "vrag_rl", folder, RunSettings(sessions=2)).run(world.records[:PLAYED])
    return folder


async def again(world, recorded, **more):
    """Recorded sessions, and the same ones said again in an environment."""
    player = ReplayPlayer(resources(world, "vrag_rl", **more), recorded.path)
    assert player.sessions == 2
    old = {(t.uid, t.session): t for t in recorded.sessions()}
    for record in world.records[:PLAYED]:
        for session in range(2):
            yield old[record.question_id, session], await player.play(record, session)


async def test_the_same_environment_gives_the_same_session(world, recorded):
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


async def test_a_record_that_ends_early_ends_the_session(world, recorded, tmp_path):
    (first, *_) = recorded.sessions()
    first.turns = first.turns[:1]
    (tmp_path / "cut.jsonl").write_text(first.to_json() + "\n")
    new = await ReplayPlayer(resources(world, "vrag_rl"), tmp_path / "cut.jsonl").play(world.records[0], 0)
    assert (new.end, new.status, len(new.turns)) == ("context_full", "unfinished", 1)


async def test_what_was_not_recorded_cannot_be_played(world, recorded, tmp_path):
    shared = resources(world, "vrag_rl")
    player = ReplayPlayer(shared, recorded.path)
    for number, session in ((0, 2), (PLAYED, 0)):
        with pytest.raises(UserError, match=world.records[number].question_id):
            await player.play(world.records[number], session)
    for source, name in ((tmp_path, tmp_path.name), (tmp_path / "gone.jsonl", r"gone\.jsonl")):
        with pytest.raises(UserError, match=name):
            ReplayPlayer(shared, source)
