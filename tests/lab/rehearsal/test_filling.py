"""A rehearsal's policy fills rows of every system, in documents and with the tokenizer that a
rehearsal makes.
"""

import asyncio

import pytest
from transformers import AutoProcessor, AutoTokenizer

from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.config import DocAgentConfig, plain_section
from docagent_rl.lab.rehearsal.filling import FillingPolicy
from docagent_rl.lab.rehearsal.paths import RehearsalPaths
from docagent_rl.lab.rehearsal.settings import PROFILE, RehearsalSettings, overrides_of
from docagent_rl.lab.rehearsal.workspace import make_workspace
from docagent_rl.rollout.resources import TrajectoryResources
from docagent_rl.rollout.rollout import Limits, Rollout, Sampled
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.samples.parquet import read_parquet
from docagent_rl.samples.sample import Split

pytestmark = pytest.mark.slow

RECIPES = {
    "alden": "alden_qwen2_5_vl_7b",
    "doc_v_star": "doc_v_star_qwen2_5_vl_7b",
    "mm_doc_r1": "mm_doc_r1_qwen3_8b",
    "unidoc_rl": "unidoc_rl_qwen2_5_vl_7b",
    "vrag_rl": "vrag_rl_qwen2_5_vl_7b",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("rehearsal")


def resources_of(run, paths: RehearsalPaths) -> TrajectoryResources:
    parsed = DocAgentConfig.parse(plain_section(run.docagent))
    make_workspace(paths, parsed, questions=4)
    tokenizer = AutoTokenizer.from_pretrained(paths.model)
    seeing = parsed.model_family != "qwen3"
    processor = AutoProcessor.from_pretrained(paths.model) if seeing else None
    return TrajectoryResources(parsed, tokenizer, processor)


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_rows_are_filled_until_the_last_turn_answers(name, folder):
    recipe = composed_recipe(RECIPES[name])
    context = int(recipe.actor_rollout_ref.rollout.max_model_len)
    paths = RehearsalPaths(folder, recipe.docagent.model_family, context)
    changes = overrides_of(RehearsalSettings(), recipe, paths)
    run = composed_recipe(RECIPES[name], [f"+profile={PROFILE}", *changes])
    resources = resources_of(run, paths)
    sample = read_parquet(paths.data(Split.TRAIN))[0]
    trajectory = Trajectory("a", 0, 1, "train", sample.to_dict(), name)
    policy = FillingPolicy(resources, sample, context, "seed")

    async def generate(ids, images, max_tokens):
        written = policy.turn(trajectory, len(ids), max_tokens)
        return Sampled(written, [-1.0] * len(written))

    limits = Limits(
        run.data.max_prompt_length,
        run.data.max_response_length,
        run.docagent.rollout.turn_tokens,
        run.docagent.rollout.min_turn_tokens,
    )
    rollout = Rollout(
        resources.environment(validate=False),
        resources.codec,
        resources.encoder,
        generate,
        limits,
        trajectory,
    )
    ledgers = asyncio.run(rollout.play(sample))
    turns = trajectory.turns
    most = resources.system.max_turns(resources.env_config)
    lengths = [ledger.prompt_length + ledger.response_length for ledger in ledgers]
    assert max(lengths) <= context
    # it plays to the end, or until a row is full
    assert len(turns) == most or max(lengths) > 0.9 * context
    assert all(turn.record.valid for turn in turns)
    sampled = [len(turn.token_ids) for turn in turns]
    # turns are as long as they may be, or the row is full
    assert max(lengths) > 0.8 * context or min(sampled[:-1]) > 0.8 * limits.turn
