"""The chains of papers: where they begin, which stage gets which GPU, and the text of a plan."""

import sys

import pytest
from typer.testing import CliRunner

from docagent_rl.base.errors import UserError
from docagent_rl.cli import app
from docagent_rl.lab.papers.manifest import paper_systems, read_paper
from docagent_rl.lab.papers.reproduction import reproduction, services_without_gpu

RUNNER = CliRunner()


def names(setting, *arguments, **more):
    return [stage.name for stage in reproduction(setting(*arguments, **more), "").stages]


def command(setting, stage, *arguments, **more):
    stages = reproduction(setting(*arguments, **more), "").stages
    return next(each.command for each in stages if each.name == stage)


def test_a_chain_begins_where_it_is_told(setting):
    scratch = names(setting, "vrag_rl")
    assert {"collect", "sft_rows", "sft", "rl"} <= set(scratch)
    sft = names(setting, "vrag_rl", "sft")
    assert "model_sft" in sft
    assert not {"collect", "sft_rows", "sft"} & set(sft)
    weights = names(setting, "vrag_rl", "weights")
    assert "model_weights" in weights
    assert not {"rl", "import_slidevqa_train", "questions_train", "leakage"} & set(weights)
    assert weights[-3:] == ["evaluate_main", "evaluate_search_r1", "report"]


@pytest.mark.parametrize("system", ["alden", "mm_doc_r1"])
def test_papers_without_a_supervised_stage_begin_with_the_instruct_model(setting, system):
    assert names(setting, system, "sft") == names(setting, system)
    assert "model_base" in names(setting, system, "sft")


@pytest.mark.parametrize("system", ["alden", "doc_v_star", "mm_doc_r1"])
def test_weights_that_nobody_published_are_refused(setting, system):
    with pytest.raises(UserError, match="no published weights of"):
        reproduction(setting(system, "weights"), "")


def test_another_model_of_the_paper_is_named_where_it_has_weights(setting):
    with pytest.raises(UserError, match="--recipe vrag_rl_qwen2_5_vl_7b has some"):
        reproduction(setting("vrag_rl", "weights", recipe="vrag_rl_qwen2_5_vl_3b"), "")
    with pytest.raises(UserError, match="has no recipe 'x'; it has unidoc_rl_qwen2_5_vl_7b, "):
        read_paper("unidoc_rl").model("x")


def test_the_authors_weights_play_the_released_variant_by_their_prompts(setting, tmp_path):
    played = command(
        setting, "evaluate_main", "vrag_rl", "weights", 1, prompts=tmp_path / "their.yaml"
    )
    assert "docagent.env.variant=released" in played
    assert f"docagent.prompt={tmp_path / 'their.yaml'}" in played
    assert "tensor_model_parallel_size=1" in played
    assert f"--model {tmp_path / 'w' / 'models' / 'weights'}" in played
    chain = reproduction(setting("vrag_rl", "weights", 1), "")
    (judge,) = chain.services
    assert judge.environment == {"CUDA_VISIBLE_DEVICES": "0"}
    assert [stage.name for stage in chain.stages if stage.services] == ["report"]


@pytest.mark.parametrize("beginning", ["weights", "sft", "scratch"])
def test_a_baseline_is_played_by_the_base_model_without_what_is_the_systems(
    setting, tmp_path, beginning
):
    prompts = tmp_path / "their.yaml"
    played = command(setting, "evaluate_search_r1", "vrag_rl", beginning, prompts=prompts)
    assert "--agent search_r1 --model Qwen/Qwen2.5-VL-7B-Instruct -- +retriever=bm25" in played
    assert "docagent.prompt" not in played
    assert "docagent.env" not in played
    models = [
        stage.command
        for stage in reproduction(setting("vrag_rl", beginning), "").stages
        if stage.name.startswith("model_") and stage.command
    ]
    base = [model.count("hf download Qwen/Qwen2.5-VL-7B-Instruct") for model in models]
    assert sum(base) == 1
    report = command(setting, "report", "vrag_rl", beginning)
    assert str(tmp_path / "w" / "evaluations" / "search_r1") in report
    assert "evaluate_search_r1" not in names(setting, "vrag_rl", miniature=True)


def test_a_baseline_of_one_recipe_is_in_its_chain_alone_and_can_have_a_model_of_its_own(setting):
    assert "evaluate_mdocagent" not in names(setting, "alden")
    assert "evaluate_mdocagent" in names(setting, "alden", recipe="alden_hybrid_qwen2_5_vl_7b")
    played = command(setting, "evaluate_mdocagent", "mm_doc_r1")
    assert "--agent mdocagent --model Qwen/Qwen2.5-VL-7B-Instruct" in played
    assert "docagent.roles" not in played
    others = command(setting, "model_others", "mm_doc_r1")
    assert others.count("hf download Qwen/Qwen2.5-VL-7B-Instruct") == 1  # the reader is the same


def test_a_judge_that_no_gpu_holds_is_named_and_the_report_does_without(setting):
    chosen = setting("unidoc_rl", "weights", 1)
    chain = reproduction(chosen, "")
    assert chain.services == []
    (judge,) = services_without_gpu(chosen, chain)
    assert (judge.name, judge.optional) == ("judge", True)
    assert "DOCAGENT_JUDGE_URL" in judge.sentence
    assert "--judge" not in str(chain.stages[-1].command)


def test_a_judge_of_training_has_to_be_somewhere(setting, monkeypatch):
    chosen = setting("unidoc_rl", "sft", 4)
    (judge,) = services_without_gpu(chosen, reproduction(chosen, ""))
    assert not judge.optional
    assert "Qwen/Qwen2.5-72B-Instruct does not fit beside the others on 4 GPUs" in judge.sentence
    monkeypatch.setenv("DOCAGENT_JUDGE_URL", "http://judge/v1")
    chosen = setting("unidoc_rl", "sft", 4)
    monkeypatch.setenv("DOCAGENT_JUDGE_URL", "http://judge/v1")
    assert services_without_gpu(chosen, reproduction(chosen, "")) == []


def devices(placement):
    return {
        name: start.environment["CUDA_VISIBLE_DEVICES"]
        for name, start in placement.services.items()
    }


def test_gpus_are_shared_by_the_plan(setting):
    found = setting("mm_doc_r1").placement
    assert (found.trainer, found.retriever, found.elsewhere) == ((0, 1, 2, 3), (), ())
    assert devices(found) == {"planner": "5,6", "reader": "4", "extractor": "4,5,6,7"}
    # on a GPU of others it starts when they have taken their memory
    assert found.services["extractor"].after == ("planner", "reader")
    found = setting("vrag_rl").placement
    assert (found.trainer, found.retriever) == ((0, 1, 2, 3), (5,))
    assert devices(found) == {"judge": "4"}


def test_services_that_do_not_fit_are_left_out_the_largest_first(setting):
    found = setting("mm_doc_r1", gpus=5).placement
    assert found.elsewhere == ("extractor",)
    assert devices(found) == {"planner": "4", "reader": "4"}


def test_a_trainer_that_does_not_fit_alone_is_refused_before_anything_runs(setting, tmp_path):
    found = setting("mm_doc_r1", gpus=2).placement
    assert found.elsewhere == ("planner", "reader", "extractor")
    assert "it fits on 4 GPUs of this memory" in found.refusal
    arguments = ["reproduce", "doc_v_star", "--workspace", str(tmp_path / "w"), "--gpus", "1"]
    done = RUNNER.invoke(app, [*arguments, "--gpu-memory", "a100-80"])
    assert isinstance(done.exception, UserError)
    assert "doc_v_star_qwen2_5_vl_7b does not fit on 1 GPU" in str(done.exception)
    assert not (tmp_path / "w").exists()
    assert "does not fit on 1 GPU" in RUNNER.invoke(app, [*arguments, "--dry-run"]).output


def test_servers_elsewhere_take_no_gpu(setting, monkeypatch):
    chosen = setting("mm_doc_r1", gpus=5)
    monkeypatch.setenv("DOCAGENT_EXTRACTOR_URL", "http://big:8000/v1")
    assert chosen.placement.elsewhere == ()


def test_the_planner_is_the_model_that_is_trained(setting):
    chain = reproduction(setting("mm_doc_r1", recipe="mm_doc_r1_qwen3_4b"), "")
    assert "vllm serve Qwen/Qwen3-4B --served" in chain.services[0].command


@pytest.mark.parametrize("beginning", ["weights", "sft", "scratch"])
@pytest.mark.parametrize("system", paper_systems())
def test_a_dry_run_prints_every_command_and_runs_none(system, beginning, tmp_path, setting):
    arguments = ["reproduce", system, "--from", beginning, "--workspace", str(tmp_path / "w")]
    done = RUNNER.invoke(app, [*arguments, "--dry-run", "--price", "2.5"])
    if beginning == "weights" and read_paper(system).models[0].weights is None:
        assert isinstance(done.exception, UserError)
        return
    assert done.exit_code == 0, done.output
    assert not (tmp_path / "w").exists()
    assert "docagent-rl data import" in done.output
    assert "docagent-rl report" in done.output
    assert "cost " in done.output
    assert ("main_ppo --config-name" in done.output) == (beginning != "weights")


def test_the_corpus_of_all_downloads_is_one_step(tmp_path):
    arguments = ["reproduce", "vrag_rl", "--from", "weights", "--workspace", str(tmp_path)]
    arguments += ["--dry-run", "--gpus", "1", "--corpus"]
    text = RUNNER.invoke(app, arguments).output
    for name in ("slidevqa", "vidoseek", "mmlongbench"):
        assert f"download_{name}: " in text
        # into the same store
        assert f"--store {tmp_path}/store --out" in text.partition(f"import_{name}")[2]
    assert "index_colqwen2: index the store" in text
    assert "evaluate_main" not in text
    both = RUNNER.invoke(app, [*arguments, "--stage", "index_colqwen2"])
    assert "leave out --stage" in str(both.exception)


def test_a_dry_run_loads_neither_torch_nor_verl(tmp_path):
    import subprocess

    program = (
        "import sys; from typer.testing import CliRunner; from docagent_rl.cli import app; "
        "done = CliRunner().invoke(app, ['reproduce', 'vrag_rl', '--dry-run']); "
        "assert done.exit_code == 0, done.output; "
        "print(sorted({'torch', 'verl', 'transformers', 'ray'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.strip() == "[]"


def test_without_prompts_the_authors_weights_are_warned_about(tmp_path):
    arguments = ["reproduce", "vrag_rl", "--from", "weights", "--dry-run", "--gpus", "1"]
    done = RUNNER.invoke(app, [*arguments, "--workspace", str(tmp_path)])
    assert "cannot be compared" in done.output


def test_nothing_is_run_where_there_is_no_gpu(tmp_path):
    done = RUNNER.invoke(
        app, ["reproduce", "doc_v_star", "--workspace", str(tmp_path), "--gpus", "0"]
    )
    assert isinstance(done.exception, UserError)
    assert "--miniature" in str(done.exception)


def test_literal_is_refused_where_nothing_is_to_be_set(setting):
    with pytest.raises(UserError, match=r"changes nothing for vrag_rl.* no key"):
        reproduction(setting("vrag_rl", literal=True), "")
