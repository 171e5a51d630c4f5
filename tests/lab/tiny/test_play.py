import asyncio
import random
from functools import cache
from itertools import islice

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.envs.script import Move
from docagent_rl.envs.services import EnvServices, RetrieverService
from docagent_rl.lab.agents.random_turns import random_turn
from docagent_rl.lab.tiny import play as playing
from docagent_rl.lab.tiny.play import PlayStage, StagedPlayer, play, scripted_conversations
from docagent_rl.rewards.rule_judge import RuleJudge
from docagent_rl.systems import SYSTEMS, get_system
from docagent_rl.systems.alden.actions import Modality

MOVES = {
    "alden": {Move.SEARCH, Move.FETCH, Move.ANSWER},
    "doc_v_star": {Move.SEARCH, Move.FETCH, Move.ANSWER},
    "mm_doc_r1": {Move.SEARCH, Move.READ, Move.FINISH},
    "unidoc_rl": {Move.SEARCH, Move.SELECT, Move.CROP, Move.ANSWER},
    "vrag_rl": {Move.SEARCH, Move.CROP, Move.ANSWER},
}
ALL_PAGES = {"scope": "document", "candidates": 1}
OTHER_CONFIGS = [
    ("alden", {"variant": "released", "modality": "hybrid", "search": {"text_ranking": "shared"}}),
    ("alden", {"fetch": False}),
    ("doc_v_star", {"fetch": {"enabled": False}, "thought": {"analysis": False}}),
    ("unidoc_rl", {"variant": "released", "grammar": {"crop": False}}),
    ("unidoc_rl", {"grammar": {"select": False}, "search": ALL_PAGES}),
    ("vrag_rl", {"variant": "released", "grammar": {"crop": False}}),
]


@pytest.fixture(scope="module")
def stage_of(world):
    services = EnvServices(world.store, RetrieverService(world.retriever), RuleJudge())

    def make(name, **changes):
        system = get_system(name)
        return PlayStage(
            system, system.parse_config({**system.small, **changes}), services, world.samples
        )

    return make


def played(stage, trajectories):
    """Return trajectories, and the moves that the script meant."""
    script, rng = stage.system.script(stage.config), random.Random(0)
    written = []

    def noted(*arguments):
        written.append(random_turn(*arguments))
        return written[-1]

    async def run():
        return [
            await play(stage, script, rng.choice(stage.playable), rng) for _ in range(trajectories)
        ]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(playing, "random_turn", noted)
        return asyncio.run(run()), [turn.move for turn in written]


@pytest.fixture(scope="module")
def trajectories_of(stage_of):
    return cache(lambda name: played(stage_of(name), 40))


@pytest.mark.parametrize("name", SYSTEMS)
def test_turns_do_what_they_were_written_to_do(name, trajectories_of):
    trajectories, moves = trajectories_of(name)
    turns = [turn for trajectory in trajectories for turn in trajectory.turns]
    for turn, move in zip(turns, moves, strict=True):
        assert turn.info["action"]["kind"] == (move or "invalid")
        # pages that do not exist are the only fault of a well-formed turn
        if move not in (None, Move.READ):
            assert set(turn.info.get("faults", ())) <= {"fetch_pages", "relevant_pages"}
            assert turn.info.get("fault") is None
    assert set(moves) == {*MOVES[name], None}
    assert 0.01 < moves.count(None) / len(moves) < 0.2


@pytest.mark.parametrize(("name", "changes"), OTHER_CONFIGS)
def test_scripts_follow_the_configuration(name, changes, stage_of):
    trajectories, moves = played(stage_of(name, **changes), 8)
    kinds = [
        turn.info["action"]["kind"] for trajectory in trajectories for turn in trajectory.turns
    ]
    assert kinds == [move or "invalid" for move in moves]


def test_players_take_turns_and_need_questions(stage_of):
    stage = stage_of("alden")
    configs = stage.system.script.configs(stage.config)
    assert [config.modality for config in configs] == [Modality.VISUAL, Modality.HYBRID]

    def drawn(samples):
        stages = [PlayStage(stage.system, config, stage.services, samples) for config in configs]
        players = [StagedPlayer(each, each.system.script(each.config)) for each in stages]
        return list(islice(scripted_conversations(players, 0), 4))

    openings = [conversation[0]["content"] for conversation in drawn(stage.samples)]
    assert [("image or text" in opening) for opening in openings] == [False, True, False, True]
    with pytest.raises(UserError):
        drawn([])
