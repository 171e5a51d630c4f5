"""The oracle, its detours and random agents in the real environments of all systems."""

import dataclasses
import itertools
from statistics import fmean

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.lab.agents.scripted import ChancePlayer, Detours, ScriptPlayer
from docagent_rl.systems import SYSTEMS
from tests.lab.agents.stage import resources, timeless

OFTEN = Detours(wrong_query=0.5, wrong_page=0.5, malformed=0.3)


@pytest.fixture(scope="module")
def best(world):
    """Return a function that plays a system's oracle; it returns the trajectories and the resources
    of its environments.
    """
    known = {}

    async def of(system):
        if system not in known:
            shared = resources(world, system, judge={"kind": "anls"})
            player = ScriptPlayer(shared)
            known[system] = shared, [await player.play(sample, 0) for sample in world.samples]
        return known[system]

    return of


@pytest.mark.parametrize("system", sorted(SYSTEMS))
async def test_the_oracle_is_a_ceiling_and_chance_a_floor(world, best, system):
    shared, trajectories = await best(system)
    chance = ChancePlayer(shared)
    floor = [await chance.play(sample, 0) for sample in world.samples]
    assert all(trajectory.status == "finished" for trajectory in trajectories)
    # its own looking for pages is not recorded
    assert all(len(turn.searches) <= 2 for trajectory in trajectories for turn in trajectory.turns)
    assert all(trajectory.metrics["invalid_actions"] == 0 for trajectory in (*trajectories, *floor))
    assert all(
        trajectory.metrics.get("retrieval_recall", 1.0) == 1.0 for trajectory in trajectories
    )
    ceiling = fmean(trajectory.reward for trajectory in trajectories)
    assert ceiling > 2 * fmean(trajectory.reward for trajectory in floor)
    # where evidence decides, it gets everything
    assert system in ("alden", "mm_doc_r1") or ceiling == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("system", sorted(SYSTEMS))
async def test_detours_go_astray_and_come_back(world, best, system):
    shared, trajectories = await best(system)
    player = ScriptPlayer(shared, OFTEN, seed=3)
    detoured = [await player.play(sample, n) for sample in world.samples for n in range(2)]
    straight = {trajectory.uid: trajectory.turns[0].text for trajectory in trajectories}
    astray = [
        each
        for each in detoured
        if len(each.turns) > 1 and each.turns[0].text != straight[each.uid]
    ]
    assert len(astray) > len(detoured) / 8
    assert all(each.status == "finished" for each in detoured)
    spoilt = [each for each in detoured if each.metrics["invalid_actions"]]
    assert bool(spoilt) is (system != "alden")
    for each in spoilt:
        valid = [turn.info["valid"] for turn in each.turns]
        assert valid[-1]
        assert (False, False) not in itertools.pairwise(valid)


async def test_the_same_seed_gives_the_same_trajectory_and_another_number_another_one(world):
    shared = resources(world, "vrag_rl")
    one, two = (ScriptPlayer(shared, OFTEN, seed=1) for _ in range(2))
    for sample in world.samples[:4]:
        assert timeless(await one.play(sample, 0)) == timeless(await two.play(sample, 0))
    texts = {
        tuple(turn.text for turn in (await one.play(world.samples[0], n)).turns) for n in range(8)
    }
    assert len(texts) > 4


@pytest.mark.parametrize("system", sorted(SYSTEMS))
async def test_chance_does_not_know_the_references(world, best, system):
    player = ChancePlayer((await best(system))[0])
    for sample in world.samples[:4]:
        other = dataclasses.replace(sample, answers=("quite another answer",), evidence_boxes={})
        first, second = await player.play(sample, 1), await player.play(other, 1)
        assert [turn.text for turn in first.turns] == [turn.text for turn in second.turns]


@pytest.mark.parametrize("system", ["vrag_rl", "unidoc_rl"])
async def test_boxes_are_drawn_where_the_evidence_is(world, best, system):
    sample = world.samples[1]
    box = (0.1, 0.2, 0.5, 0.6)
    boxed = dataclasses.replace(sample, evidence_boxes={min(sample.evidence_pages): (box,)})
    trajectory = await ScriptPlayer((await best(system))[0]).play(boxed, 0)
    (crop,) = [
        turn.info["effect"] for turn in trajectory.turns if turn.info["effect"]["kind"] == "crop"
    ]
    assert (crop.get("region") or crop["scored"][0]) == pytest.approx(box, abs=0.02)


async def test_what_no_script_can_play_is_named(world):
    shared = resources(world, "doc_v_star")
    hidden = dataclasses.replace(world.samples[0], answers=(), answerable=None)
    with pytest.raises(UserError, match=hidden.question_id):
        await ScriptPlayer(shared).play(hidden, 0)
    shared.system = dataclasses.replace(shared.system, name="own", agents=None)
    with pytest.raises(UserError, match="'own'"):
        ScriptPlayer(shared)
