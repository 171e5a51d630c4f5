from __future__ import annotations

import asyncio
import random
from collections import Counter
from itertools import islice

import pytest
from omegaconf import OmegaConf

from docagent_rl.checks.recipe_check import composed
from docagent_rl.checks.recipe_list import recipe_names
from docagent_rl.config import DocAgentConfig
from docagent_rl.envs.base import EndReason
from docagent_rl.envs.script import Move
from docagent_rl.envs.services import EnvServices, RetrieverService
from docagent_rl.errors import UserError
from docagent_rl.rewards.rule_judge import RuleJudge
from docagent_rl.systems import SYSTEMS, get_system
from docagent_rl.systems.alden.actions import Modality
from docagent_rl.tiny.encoding import encode
from docagent_rl.tiny.play import Player, Stage, play, scripted_conversations
from docagent_rl.tiny.tokenizer import build_tokenizer
from docagent_rl.tiny.warm_up import digest

EPISODES = 40
TURN_TOKENS = 64

MOVES = {
    "alden": {Move.SEARCH, Move.FETCH, Move.ANSWER},
    "doc_v_star": {Move.SEARCH, Move.FETCH, Move.ANSWER},
    "mm_doc_r1": {Move.SEARCH, Move.READ, Move.FINISH},
    "unidoc_rl": {Move.SEARCH, Move.SELECT, Move.CROP, Move.ANSWER},
    "vrag_rl": {Move.SEARCH, Move.CROP, Move.ANSWER},
}

OTHER_CONFIGS = [
    ("alden", {"variant": "released", "modality": "hybrid", "search": {"text_ranking": "shared"}}),
    ("alden", {"fetch": False}),
    ("doc_v_star", {"fetch": {"enabled": False}, "thought": {"analysis": False}}),
    ("unidoc_rl", {"variant": "released", "grammar": {"crop": False}}),
    ("unidoc_rl", {"grammar": {"select": False}}),
    ("vrag_rl", {"variant": "released", "grammar": {"crop": False}}),
]


@pytest.fixture(scope="module")
def stage_of(world):
    services = EnvServices(world.store, RetrieverService(world.retriever), RuleJudge())

    def make(name, **changes):
        system = get_system(name)
        return Stage(system, system.parse_config({**system.small, **changes}), services, world.records)

    return make


def played(stage, seed=0, episodes=EPISODES):
    script, rng = stage.system.script(stage.config), random.Random(seed)

    async def run():
        return [await play(stage, script, rng.choice(stage.playable), rng) for _ in range(episodes)]

    return asyncio.run(run())


@pytest.fixture(scope="module")
def episodes_of(stage_of):
    known = {}

    def of(name):
        if name not in known:
            known[name] = played(stage_of(name))
        return known[name]

    return of


@pytest.mark.parametrize("name", SYSTEMS)
def test_turns_do_what_they_were_written_to_do(name, episodes_of):
    moves = Counter()
    for episode in episodes_of(name):
        assert episode.results[-1].done
        for line, result in zip(episode.lines, episode.results, strict=True):
            moves[line.move] += 1
            assert result.info["action"]["kind"] == (line.move or "invalid")
            # pages that do not exist are the only fault of a well-formed turn
            if line.move not in (None, Move.READ):
                assert set(result.info.get("faults", ())) <= {"fetch_pages", "relevant_pages"}
                assert result.info.get("fault") is None
    assert set(moves) == {*MOVES[name], None}
    assert 0.01 < moves[None] / moves.total() < 0.2


@pytest.mark.parametrize("name", SYSTEMS)
def test_turns_are_short_and_episodes_end_and_pay_differently(name, episodes_of):
    episodes = episodes_of(name)
    turns = [line.text for episode in episodes for line in episode.lines]
    tokenizer = build_tokenizer(turns)
    assert max(len(tokenizer.encode(text)) for text in turns) < TURN_TOKENS
    ends = {episode.results[-1].end for episode in episodes}
    assert ends & {EndReason.ANSWERED, EndReason.FINISHED}
    assert len({episode.metrics["reward/total"] for episode in episodes}) >= 3


@pytest.mark.parametrize("name", SYSTEMS)
def test_conversations_are_fit_for_a_warm_up(name, episodes_of, processor):
    """Every one ends with a turn; MM-Doc-R1 has one for each step, the others one for each episode."""
    for episode in episodes_of(name)[:5]:
        written = [
            message["content"]
            for conversation in episode.conversations
            for message in conversation
            if message["role"] == "assistant"
        ]
        assert written == [line.text for line in episode.lines]
        assert len(episode.conversations) == (len(written) if name == "mm_doc_r1" else 1)
        for conversation in episode.conversations:
            assert encode(conversation, processor).supervised.any()


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_seed_decides_everything(name, stage_of):
    stage = stage_of(name)
    players = [Player(stage, stage.system.script(stage.config))]
    first, again, other = (digest(islice(scripted_conversations(players, n), 6)) for n in (0, 0, 1))
    assert first == again
    assert first != other


@pytest.mark.parametrize(("name", "changes"), OTHER_CONFIGS)
def test_scripts_follow_the_configuration(name, changes, stage_of):
    if changes.get("grammar") == {"select": False}:
        changes = {**changes, "search": {"scope": "document", "candidates": 1}}
    for episode in played(stage_of(name, **changes), episodes=8):
        for line, result in zip(episode.lines, episode.results, strict=True):
            assert result.info["action"]["kind"] == (line.move or "invalid")


def test_needs_questions(stage_of):
    stage = stage_of("vrag_rl")
    empty = Stage(stage.system, stage.config, stage.services, [])
    with pytest.raises(UserError):
        next(scripted_conversations([Player(empty, stage.system.script(stage.config))], 0))


def test_players_take_turns(stage_of):
    stage = stage_of("alden")
    configs = stage.system.script.configs(stage.config)
    assert [config.modality for config in configs] == [Modality.VISUAL, Modality.HYBRID]
    players = [
        Player(Stage(stage.system, config, stage.services, stage.records), stage.system.script(config))
        for config in configs
    ]
    openings = [conversation[0]["content"] for conversation in islice(scripted_conversations(players, 0), 4)]
    assert [("image or text" in opening) for opening in openings] == [False, True, False, True]


@pytest.mark.parametrize("recipe", recipe_names())
def test_demos_and_recipes_have_the_same_sizes(recipe):
    """A model made without a recipe is warmed up on what the CPU profile makes of one."""
    section = OmegaConf.to_container(composed(recipe, ["+profile=cpu"]).docagent, resolve=True)
    assert section["env_cpu"] == {}
    system = get_system(section["system"])
    small = system.parse_config(DocAgentConfig.parse(section).env).model_dump(mode="json")
    for key, value in flat(system.small):
        assert dict(flat(small))[key] == value


def flat(section, prefix=""):
    for key, value in section.items():
        yield from flat(value, f"{prefix}{key}.") if isinstance(value, dict) else [(f"{prefix}{key}", value)]
