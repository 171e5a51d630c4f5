"""The chain of an agent: which stages there are, what they start, and when they run again."""

import json

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.checks.recipe_list import recipe_names
from docagent_rl.lab.own_agent.own_stages import own_chain
from docagent_rl.lab.own_agent.recipe import recipe_facts, tuned_recipes
from docagent_rl.lab.own_agent.retriever import retriever_names
from docagent_rl.lab.stages.marker import StageState, input_digests, state, write_marker
from docagent_rl.samples.parquet import read_samples
from tests.lab.stages.commands import check_words, overrides_of, words_of

TEACHER = {"base_url": "http://127.0.0.1:8003/v1", "model": "teacher", "api_key_env": "KEY"}
JUDGE = {"base_url": "http://127.0.0.1:8001/v1", "model": "judge", "api_key_env": "KEY"}
ORACLE = {"player": "oracle", "overrides": ["optim.lr=1e-3"]}
CHOICES = [
    {},
    {"profile": None},
    {"teacher": ORACLE, "steps": 2},
    {"profile": None, "teacher": TEACHER, "judge": JUDGE, "steps": 2, "gpus": 5},
    {"profile": None, "retriever": "colqwen2", "model": "some/weights", "teacher": TEACHER},
    {"retriever": "hybrid", "recipe": "alden_hybrid_qwen2_5_vl_7b", "overrides": ["a.b=c d"]},
    {"profile": None, "retriever": "lancedb", "evaluation": {"questions": "exam.jsonl"}},
]


def stages(agent, **values):
    return {stage.name: stage for stage in own_chain(agent(**values), "go on").stages}


def test_the_chain_goes_from_documents_to_a_report(agent):
    assert list(stages(agent)) == [
        *("ingest", "index", "questions", "convert", "rl", "evaluate", "report"),
    ]
    tuned = list(stages(agent, teacher=ORACLE))
    assert tuned[4:9] == ["model", "collect", "sft_rows", "sft", "rl"]


@pytest.mark.parametrize("values", CHOICES)
def test_every_command_has_options_that_it_takes(agent, folder, tmp_path, values):
    (folder / "exam.jsonl").touch()
    for stage in stages(agent, **values).values():
        assert stage.command
        for words in words_of(stage.command, tmp_path):
            check_words(words)


@pytest.mark.parametrize("values", CHOICES)
def test_inputs_are_the_users_or_made_by_stages_before(agent, folder, tmp_path, values):
    (folder / "exam.jsonl").touch()
    made = {tmp_path / "pdfs", folder / "collect.yaml", folder / "exam.jsonl"}
    for stage in stages(agent, **values).values():
        for path in stage.inputs:
            beside = path.name == "trajectories.jsonl" and path.with_name("report.json") in made
            assert path in made or beside, (stage.name, path)
        made |= set(stage.outputs)


@pytest.mark.parametrize("recipe", recipe_names())
def test_every_recipe_has_a_chain(agent, recipe):
    teacher = ORACLE if recipe in tuned_recipes() else None
    found = stages(agent, recipe=recipe, profile=None, teacher=teacher)
    assert f"--config-name {recipe} " in str(found["rl"].command)
    assert found["rl"].outputs[0].parents[1].name == recipe
    facts = recipe_facts(recipe)
    assert recipe.startswith(facts.system)
    assert ("judge.kind=rule" in str(found["rl"].command)) == facts.asks_judge


@pytest.mark.parametrize("retriever", retriever_names())
def test_every_retriever_has_its_indexes(agent, folder, retriever):
    made = agent(retriever=retriever)
    assert made.indexes
    found = stages(agent, retriever=retriever)
    for index in made.indexes:
        command = str(found[index.folder].command)
        assert f"--out {folder / index.folder}" in command
        assert (index.model is None) == ("--model" not in command)


def test_a_retriever_with_two_indexes_gets_both(agent):
    folders = [index.folder for index in agent(retriever="hybrid").indexes]
    assert folders == ["index", "index_minilm"]
    hybrid = {"recipe": "alden_hybrid_qwen2_5_vl_7b", "retriever": "bm25"}
    assert [i.folder for i in agent(**hybrid).indexes] == ["index", "index_minilm"]
    real = agent(**hybrid, profile=None)
    assert [i.folder for i in real.indexes] == ["index", "index_e5_large"]


def test_gpus_are_used_as_far_as_they_go(agent):
    def command(**values):
        return stages(agent, profile=None, **values)["rl"]

    alone = command(gpus=1)
    assert "trainer.n_gpus_per_node=1 " in alone.command
    assert "tensor_model_parallel_size=1" in alone.command
    assert alone.environment["CUDA_VISIBLE_DEVICES"] == "0"
    all_of_them = command(gpus=None)
    assert "trainer.n_gpus_per_node=8" in all_of_them.command
    assert "CUDA_VISIBLE_DEVICES" not in all_of_them.environment
    shared = command(gpus=5, retriever="colqwen2")
    assert "docagent.retriever.service.num_gpus=1" in shared.command
    assert shared.environment["CUDA_VISIBLE_DEVICES"] == "0,1,2,3,4"
    assert "trainer.n_gpus_per_node" not in stages(agent, profile="cpu")["rl"].command


def test_an_adapter_is_chosen_before_the_profile(agent, tmp_path):
    found = stages(agent, overrides=["data.seed=3", "+lora=language"])["rl"]
    ((*_, words),) = [words_of(found.command, tmp_path)]
    overrides = overrides_of(words)[1]
    assert overrides[:3] == ["+lora=language", "+profile=cpu", "+retriever=bm25"]
    assert overrides.count("+lora=language") == 1
    assert "data.seed=3" in overrides


def test_the_users_overrides_come_last(agent, tmp_path):
    own = ["actor_rollout_ref.rollout.tensor_model_parallel_size=1", "trainer.total_epochs=9"]
    found = stages(agent, profile=None, gpus=1, steps=2, overrides=own)
    assert words_of(found["rl"].command, tmp_path)[-1][-2:] == own
    assert words_of(found["evaluate"].command, tmp_path)[-1][-2:] == own
    assert found["rl"].earlier.folder == found["rl"].outputs[0].parents[1]


def test_rl_starts_from_the_tuned_model_by_a_path_that_hydra_takes(agent, folder, tmp_path):
    found = stages(agent, teacher=ORACLE)["rl"]
    words = words_of(found.command, tmp_path)[-1]
    run = "${docagent.workspace}/runs/sft_vrag_rl_qwen2_5_vl_7b/checkpoints"
    assert f"actor_rollout_ref.model.path={run}/global_step_7/huggingface" in words
    assert folder / "runs" / "sft_vrag_rl_qwen2_5_vl_7b" in found.inputs[-1].parents


def test_placeholders_do_not_train_a_real_model(agent):
    assert "--no-placeholders" not in stages(agent)["convert"].command
    assert "--no-placeholders" in stages(agent, profile=None)["convert"].command


def test_questions_of_the_user_are_not_written(agent, folder):
    (folder / "questions.jsonl").write_text("{}\n")
    assert "questions" not in stages(agent)


def test_only_what_a_change_concerns_runs_again(agent, folder):
    made = stages(agent)
    for stage in made.values():
        for path in stage.outputs:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        write_marker(stage, folder, input_digests(stage, folder), 1.0)

    def again(**values):
        found = stages(agent, **values).values()
        return [each.name for each in found if state(each, folder) is not StageState.DONE]

    assert again() == []
    assert again(steps=8) == ["rl"]
    assert again(steps=None, retriever="minilm") == ["index_minilm", "rl", "evaluate"]
    assert again(retriever="bm25", judge=JUDGE) == ["rl", "evaluate", "report"]
    (folder / "questions.jsonl").write_text("others")
    assert again(judge=None) == ["convert"]


def test_more_steps_continue_a_run_and_another_retriever_does_not(agent):
    before = stages(agent)["rl"].earlier
    assert stages(agent, steps=8)["rl"].earlier == before
    assert stages(agent, retriever="minilm")["rl"].earlier != before


@pytest.mark.slow
def test_documents_become_training_files_and_follow_the_folder(agent, folder, tmp_path, capfd):
    """The stages before training, for real."""
    before_training = ["ingest", "index", "questions", "convert"]
    own_chain(agent(), "go on").run(before_training)
    train = read_samples(folder / "data" / "train.parquet")
    assert len(train) >= 5
    assert {sample.doc_id for sample in train} == {"mill", "bakery"}
    said = capfd.readouterr()
    assert "still a placeholder" in said.out + said.err
    assert not (folder / "runs").exists()

    own_chain(agent(), "go on").run(before_training)
    assert capfd.readouterr().out.count(": done\n") == 4

    with pytest.raises(UserError, match="stage convert ended with status 2"):
        own_chain(agent(profile=None), "go on").run(before_training)
    refused = " ".join(capfd.readouterr().out.split())
    assert "8 of 8 questions still begin with 'EXAMPLE, replace me:'" in refused
    assert str(folder / "questions.jsonl") in refused.replace(" ", "")

    mine = {"doc_id": "mill", "question": "When did the mill open?", "answers": "spring"}
    rows = [{**mine, "question": f"{number}: {mine['question']}"} for number in range(6)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "questions.jsonl").write_text(lines, encoding="utf-8")
    (tmp_path / "pdfs" / "bakery.pdf").unlink()
    own_chain(agent(), "go on").run(before_training)
    assert "1 removed" in capfd.readouterr().out
    train = read_samples(folder / "data" / "train.parquet")
    assert {sample.doc_id for sample in train} == {"mill"}
