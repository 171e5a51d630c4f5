import os
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from omegaconf import OmegaConf

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.checks.check import TRACEBACK_FILE, refuse
from docagent_rl.checks.preflight import (
    TITLES_VARIABLE,
    Preflight,
    check_statically,
    end_earlier,
    pass_on_environment,
)
from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.watch.processes import RUN_VARIABLE, earlier_starts

NOBODY = "http://127.0.0.1:9"
HTTP = ["docagent.retriever.backend=http", f"docagent.retriever.service.url={NOBODY}"]
RAY = "docagent.retriever.backend=ray"


def test_a_good_configuration_passes(checked, workspace):
    parsed = checked()
    assert parsed.system == "vrag_rl"
    assert parsed.store == workspace / "store"
    # actors need no Ray before the run
    assert checked(RAY).retriever.backend == "ray"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["+trainer.sav_freq=3"], r"trainer\.sav_freq: .*trainer\.save_freq"),
        (["docagent.env.display.min_pixels=nan"], r"docagent\.env\.display\.min_pixels"),
        (["~data.val_files"], r"data\.val_files"),
        (["docagent.retriever.index=/nowhere"], "/nowhere"),
        (["docagent.prompt=/nowhere.yaml"], "/nowhere.yaml"),
        (["data.train_files=/nowhere.parquet"], r"data\.train_files: /nowhere\.parquet"),
        (["actor_rollout_ref.model.path=/nowhere"], "model.path=/nowhere"),
        (HTTP, rf"docagent\.retriever\.service\.url={NOBODY}"),
        (["actor_rollout_ref.rollout.max_model_len=1000"], "max_model_len=1000"),
        (["trainer.device=cuda"], r"\+profile=cpu"),
        # a judge and services that cannot be asked
        (["docagent.judge.kind=openai", f"docagent.judge.base_url={NOBODY}/v1",
        "docagent.judge.attempts=1"],
         NOBODY),
        ([HTTP[0]], r"service\.url"),
        ([*HTTP, "docagent.retriever.service.token_env=NOBODY_SETS_THIS"], "NOBODY_SETS_THIS"),
        ([*HTTP, "docagent.retriever.deadline_s=1"], r"timeout_s=10 .*deadline_s"),
        ([RAY, "docagent.retriever.index=/nowhere"], "/nowhere"),
    ],
)  # fmt: skip
def test_problems_name_the_offender(checked, overrides, message):
    with pytest.raises((UserError, InfrastructureError), match=f"(?s){message}"):
        checked(*overrides)


def test_columns_that_are_not_as_they_should_be(checked, workspace, tmp_path):
    table, path = pq.read_table(workspace / "data" / "train.parquet"), tmp_path / "x.parquet"
    others = table.drop_columns(["agent_name"]).append_column(
        "agent_name", pa.array(["mine"] * len(table))
    )
    for changed, message in (
        (table.drop_columns(["sample"]), r"x\.parquet: .*'sample'"),
        (others, "'mine'"),
    ):
        pq.write_table(changed, path)
        with pytest.raises(UserError, match=message):
            checked(f"data.train_files={path}")


def test_hydra_cannot_turn_an_error_into_a_warning(config, capsys):
    for given, said in (
        (config("docagent.store=/nowhere"), "/nowhere"),
        (OmegaConf.create({"docagent": 3}), ""),
    ):
        with pytest.raises(SystemExit) as stop:
            Preflight().on_run_start(given)
        assert stop.value.code == 2
        assert re.search(f"docagent-rl: .*{said}", capsys.readouterr().err)


ALDEN, SPO, GRPO = "alden_qwen2_5_vl_7b", "mm_doc_r1_qwen3_8b", "vrag_rl_qwen2_5_vl_7b"


def check(recipe, *overrides):
    return check_statically(composed_recipe(recipe, ["+profile=cpu", *overrides]))


@pytest.mark.parametrize(
    ("recipe", "override", "message"),
    [
        (ALDEN, "critic.enable=false", r"adv_estimator=turn_gae .*critic\.enable=true"),
        (ALDEN, "trainer.v1.trainer_mode=sync", r"turn_gae .*trainer\.v1\.trainer_mode=sync"),
        (ALDEN, "+docagent.advantage.options.anchor=middle", r"options\.anchor='middle'"),
        (ALDEN, "docagent.advantage.gamma_turn=1.5", r"docagent\.advantage\.gamma_turn"),
        (ALDEN, "actor_rollout_ref.actor.use_kl_loss=false", r"docagent\.kl\.observation\.coef"),
        (
            SPO,
            "algorithm.adv_estimator=trajectory_grpo",
            r"negatives: .*trajectory_grpo .*options=null",
        ),
        (SPO, "docagent.advantage.embedder.model=wheel:nothing_here", "'nothing_here'"),
        (SPO, "docagent.advantage.text.source=everything", r"docagent\.advantage\.text\.source"),
        (
            GRPO,
            "algorithm.norm_adv_by_std_in_grpo=false",
            r"norm_adv_by.* trajectory_grpo: .*std=none",
        ),
        (GRPO, "docagent.modules=[no_such_module]", "modules: no_such_module"),
        (GRPO, "algorithm.adv_estimator=turn_gea", r"adv_estimator=turn_gea .*spo, .*turn_gae, "),
    ],
)
def test_problems_of_training_name_the_offender(recipe, override, message):
    with pytest.raises(UserError, match=message):
        check(recipe, override)


def test_a_policy_that_answers_needs_room_for_the_material():
    check_statically(composed_recipe(SPO, ["+ablations=mm_doc_r1/policy_answer"]))
    with pytest.raises(UserError, match=r"14816 .*max_model_len .*9216"):
        check_statically(composed_recipe(SPO, ["docagent.roles.answer.backend=policy"]))


def test_the_options_of_another_estimator_are_cleared_by_null():
    def options(*overrides, estimator="trajectory_grpo"):
        return check(SPO, f"algorithm.adv_estimator={estimator}", *overrides).advantage.options

    with pytest.raises(UserError, match="negatives"):  # Hydra merges
        options("docagent.advantage.options={}")
    assert options("docagent.advantage.options=null") == {}
    assert options("docagent.advantage.options=null", estimator="grpo") == {}
    assert options("~docagent.advantage.options") == {}


@pytest.mark.parametrize(
    ("estimator", "warns"), [("rloo", True), ("grpo_passk", True), ("gae", False)]
)
def test_estimators_of_verl_for_which_masking_is_no_absence_are_named(caplog, estimator, warns):
    check(GRPO, f"algorithm.adv_estimator={estimator}")
    assert (f"adv_estimator={estimator} " in caplog.text) is warns


@pytest.fixture
def told(capsys):
    """Return a function that refuses a run for an error and returns the printed message."""

    def told(error, config) -> str:
        with pytest.raises(SystemExit) as stop:
            refuse(error, OmegaConf.create(config))
        assert stop.value.code == 2
        text = capsys.readouterr().err
        assert "Traceback" not in text
        return text

    return told


def at(run_dir):
    return {"docagent": {"run_dir": str(run_dir)}}


def test_a_bug_leaves_its_traceback_in_the_folder_of_the_run(told, tmp_path):
    try:
        {}["lost"]
    except KeyError as error:
        text = told(error, at(tmp_path / "runs" / "new"))
    path = tmp_path / "runs" / "new" / TRACEBACK_FILE
    assert ("KeyError: 'lost'" in text, str(path) in text) == (True, True)
    written = path.read_text()
    assert ('{}["lost"]' in written, written.splitlines()[-1]) == (True, "KeyError: 'lost'")


def test_every_start_has_an_id_of_its_own_that_all_its_processes_have(tmp_path, monkeypatch):
    ids = []
    for name in (RUN_VARIABLE, TITLES_VARIABLE):
        monkeypatch.setenv(name, "")
    for _ in range(2):
        config = OmegaConf.create(
            {"docagent": {"run_dir": str(tmp_path)}, "ray_kwargs": {"ray_init": {}}}
        )
        end_earlier(config)
        pass_on_environment(config)
        ids.append(config.ray_kwargs.ray_init.runtime_env.env_vars[RUN_VARIABLE])
        assert os.environ[RUN_VARIABLE] == ids[-1]
    assert earlier_starts(tmp_path) == (ids[1], ids[0])
    assert ids[0] != ids[1]
