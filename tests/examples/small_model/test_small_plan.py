"""The commands of the study name existing things, come in an order that works, and pass the
checks.
"""

import pytest
import typer

from docagent_rl.checks.preflight import check_statically
from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.checks.sft_check import check_sft_statically
from docagent_rl.cli import app
from docagent_rl.lab.collect.config import CollectConfig
from small_model.plan import BASELINES, HELD_OUT, HERE, LEARNT, WITHOUT_MODEL, Settings, steps
from small_model.stages import ORDER, SHARED, Stage, StudyPaths, StudySystem
from tools.documents.manifest import MANIFEST, read_manifest


@pytest.fixture
def paths(tmp_path):
    return StudyPaths(tmp_path)


def words(stage, system, paths, settings=None):
    return [step.words for step in steps(stage, system, paths, settings or Settings())]


def test_every_document_of_the_corpus_is_learnt_from_or_held_out():
    manifest = read_manifest(MANIFEST)
    assert set(LEARNT) & set(HELD_OUT) == set()
    assert {*LEARNT, *HELD_OUT} == {entry.doc_id for entry in manifest.documents}
    assert {scan.doc_id for scan in manifest.scans}.isdisjoint({*LEARNT, *HELD_OUT})


@pytest.mark.parametrize("system", list(StudySystem))
@pytest.mark.parametrize("stage", ORDER)
def test_the_command_line_knows_every_option(paths, stage, system):
    """The command that a line names parses the line, as far as possible without running."""
    group = typer.main.get_command(app)
    read = 0
    for line in words(stage, system, paths):
        if line[0] == "docagent-rl":
            command, rest = group, list(line[1:])
            while hasattr(command, "resolve_command"):
                context = command.make_context(None, rest, resilient_parsing=True)
                _, command, rest = command.resolve_command(
                    context, [*context._protected_args, *context.args]
                )
            assert command.make_context("x", rest).params
            read += 1
    assert read or stage in (Stage.MODEL, Stage.RL)


@pytest.mark.parametrize("system", list(StudySystem))
def test_agents_are_evaluated_on_the_held_out_questions_alone(paths, system):
    lines = words(Stage.BEFORE, system, paths)
    agents = [line[line.index("--agent") + 1] for line in lines]
    assert agents == [*WITHOUT_MODEL, *BASELINES, "system"]
    assert {line[line.index("--data") + 1] for line in lines} == {str(paths.held_out)}
    assert ["--model" in line for line in lines] == [agent not in WITHOUT_MODEL for agent in agents]
    (collect,) = words(Stage.COLLECT, system, paths)
    assert collect[collect.index("--data") + 1] == str(paths.train)
    filters = CollectConfig.load(str(HERE / "collect.yaml")).filters
    assert [each.kind for each in filters] == ["format", "evidence", "duplicates"]
    for stage in SHARED:
        assert words(stage, system, paths) == words(stage, StudySystem.ALDEN, paths)


@pytest.mark.parametrize("system", list(StudySystem))
def test_each_stage_begins_with_what_the_one_before_left(paths, system):
    tracker = paths.run(system, "sft") / "checkpoints" / "latest_checkpointed_iteration.txt"
    tracker.parent.mkdir(parents=True)
    tracker.write_text("24\n")
    tuned = str(tracker.parent / "global_step_24" / "huggingface")
    (after,) = words(Stage.AFTER_SFT, system, paths)
    (rl,) = steps(Stage.RL, system, paths, Settings(rl_minutes=7))
    (last,) = words(Stage.AFTER_RL, system, paths)
    assert after[after.index("--model") + 1] == tuned
    assert f"actor_rollout_ref.model.path={tuned}" in rl.words
    assert rl.minutes == 7
    assert f"docagent.run_dir={last[last.index('--model') + 1]}" in rl.words


@pytest.mark.slow
@pytest.mark.parametrize("system", list(StudySystem))
def test_training_passes_the_checks_before_a_start(paths, system, monkeypatch):
    monkeypatch.setenv("DOCAGENT_WORKSPACE", str(paths.root))
    prompts = paths.root / "prompts"
    prompts.mkdir()
    for file in (HERE / "prompts").glob("*.yaml"):
        (prompts / file.name).write_bytes(file.read_bytes())
    (rl,) = words(Stage.RL, system, paths)
    assert rl[3:5] == ("--config-name", system.recipe)
    config = composed_recipe(system.recipe, rl[5:])
    parsed = check_statically(config)
    assert parsed.system == system.value
    assert config.actor_rollout_ref.rollout.dtype == "bfloat16"
    *_, sft = words(Stage.SFT, system, paths, Settings(sft_steps=5))
    config = composed_recipe("sft_small", sft[7:], HERE / "study")
    assert check_sft_statically(config).system == system.value
    assert config.trainer.total_training_steps == 5
    assert config.data.train_files == str(paths.rows(system))
