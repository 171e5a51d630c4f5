"""The oracle, its detours and chance in the real environments of all systems."""

from __future__ import annotations

import dataclasses
import itertools
from statistics import fmean

import pytest

from docagent_rl.errors import UserError
from docagent_rl.play.chance import ChancePlayer
from docagent_rl.play.scripted import Detours, ScriptPlayer
from docagent_rl.systems import SYSTEMS
from tests.play.stage import resources, timeless

OFTEN = Detours(wrong_query=0.5, wrong_page=0.5, malformed=0.3)


async def played(player, world):
    return [await player.play(record, 0) for record in world.records]


@pytest.mark.parametrize("system", sorted(SYSTEMS))
async def test_the_oracle_is_a_ceiling_and_chance_a_floor(world, system):
    shared = resources(world, system, judge={"kind": "anls"})
    best = await played(ScriptPlayer(shared), world)
    floor = await played(ChancePlayer(shared), world)
    assert all(trajectory.status == "finished" for trajectory in best)
    assert all(trajectory.metrics["invalid_actions"] == 0 for trajectory in best)
    assert all(t.metrics.get("retrieval_recall", 1.0) == 1.0 for t in best)
    assert fmean(t.reward for t in best) > 2 * fmean(t.reward for t in floor)
    assert all(trajectory.metrics["invalid_actions"] == 0 for trajectory in floor)


@pytest.mark.parametrize("system", ["vrag_rl", "doc_v_star", "unidoc_rl"])
async def test_the_oracle_gets_everything_where_evidence_decides(world, system):
    shared = resources(world, system, judge={"kind": "anls"})
    assert fmean(t.reward for t in await played(ScriptPlayer(shared), world)) == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("system", sorted(SYSTEMS))
async def test_detours_go_astray_and_come_back(world, system):
    shared = resources(world, system, judge={"kind": "anls"})
    player = ScriptPlayer(shared, OFTEN, seed=3)
    with_detours = [await player.play(record, n) for record in world.records for n in range(2)]
    straight = await played(ScriptPlayer(shared), world)
    straight = {t.uid: [turn.text for turn in t.turns] for t in straight}
    astray = [t for t in with_detours if len(t.turns) > 1 and t.turns[0].text != straight[t.uid][0]]
    assert len(astray) > len(with_detours) / 8
    assert all(trajectory.status == "finished" for trajectory in with_detours)
    spoilt = [t for t in with_detours if t.metrics["invalid_actions"]]
    assert bool(spoilt) is (system != "alden")
    for trajectory in spoilt:
        valid = [turn.info["valid"] for turn in trajectory.turns]
        assert valid[-1]
        assert (False, False) not in itertools.pairwise(valid)


async def test_aldens_oracle_opens_texts_where_no_image_has_room(world):
    """Two pages of evidence: one is found, the other is fetched."""
    record = dataclasses.replace(world.records[0], evidence_pages=(1, 2))

    async def fetches(images):
        sizes = {
            "modality": "hybrid",
            "search": {"text_ranking": "shared"},
            "image_budget": {"images": images},
        }
        trajectory = await ScriptPlayer(resources(world, "alden", env_cpu=sizes)).play(record, 0)
        assert trajectory.metrics["invalid_actions"] == 0
        effects = [turn.info["effect"] for turn in trajectory.turns if "<fetch>" in turn.text]
        assert effects
        return trajectory, [page["form"] for effect in effects for page in effect["pages"]]

    texts, forms = await fetches(0)
    assert set(forms) == {"text"}
    assert texts.metrics["retrieval_recall"] == 1.0
    _, forms = await fetches(4)
    assert set(forms) == {"image"}


async def test_the_same_seed_gives_the_same_session_and_another_number_another_one(world):
    shared = resources(world, "vrag_rl")
    one, two = ScriptPlayer(shared, OFTEN, seed=1), ScriptPlayer(shared, OFTEN, seed=1)
    for record in world.records[:4]:
        assert timeless(await one.play(record, 0)) == timeless(await two.play(record, 0))
    texts = {tuple(turn.text for turn in (await one.play(world.records[0], n)).turns) for n in range(8)}
    assert len(texts) > 4


async def test_looking_for_a_query_leaves_no_trace(world):
    trajectory = await ScriptPlayer(resources(world, "vrag_rl")).play(world.records[0], 0)
    searches = sum(turn.info["action"]["kind"] == "search" for turn in trajectory.turns)
    assert sum(len(turn.searches) for turn in trajectory.turns) == searches


@pytest.mark.parametrize("system", sorted(SYSTEMS))
async def test_chance_does_not_know_the_references(world, system):
    player = ChancePlayer(resources(world, system))
    for record in world.records[:4]:
        other = dataclasses.replace(record, answers=("quite another answer",), evidence_boxes={})
        first, second = await player.play(record, 1), await player.play(other, 1)
        assert [turn.text for turn in first.turns] == [turn.text for turn in second.turns]


async def test_boxes_are_drawn_where_the_evidence_is(world):
    record = world.records[0]
    page = min(record.evidence_pages)
    boxed = dataclasses.replace(record, evidence_boxes={page: ((0.1, 0.2, 0.5, 0.6),)})
    for system in ("vrag_rl", "unidoc_rl"):
        trajectory = await ScriptPlayer(resources(world, system)).play(boxed, 0)
        (crop,) = [t.info["effect"] for t in trajectory.turns if t.info["effect"]["kind"] == "crop"]
        shown = crop.get("region") or crop["scored"][0]
        assert shown == pytest.approx([0.1, 0.2, 0.5, 0.6], abs=0.02)


async def test_a_question_without_a_reference_is_refused(world):
    hidden = dataclasses.replace(world.records[0], answers=(), answerable=None)
    with pytest.raises(UserError, match=hidden.question_id):
        await ScriptPlayer(resources(world, "doc_v_star")).play(hidden, 0)


def test_a_system_that_no_script_knows_is_named(world):
    shared = resources(world, "vrag_rl")
    shared.system = dataclasses.replace(shared.system, name="own")
    with pytest.raises(UserError, match="'own'"):
        ScriptPlayer(shared)
