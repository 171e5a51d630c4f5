from omegaconf import OmegaConf

from docagent_rl.training.settings.keys import (
    key_problems,
    mode_problems,
    reference,
    tracker_problems,
)

VRAG = "vrag_rl_qwen2_5_vl_7b"


def test_trainer_modes(recipe):
    for mode in ("docagent_separate_async", "sync", "colocate_async"):
        assert not list(mode_problems(recipe(VRAG, f"trainer.v1.trainer_mode={mode}")))
    for mode in ("docagent_asynchronous", "null"):
        (problem,) = mode_problems(recipe(VRAG, f"trainer.v1.trainer_mode={mode}"))
        assert "docagent_sync, " in problem


def unknown(config) -> list[str]:
    return list(key_problems(OmegaConf.create(config)))


def test_trackers(recipe, tmp_path, monkeypatch):
    def found(names, *, installed):
        return list(
            tracker_problems(OmegaConf.create({"trainer": {"logger": names}}), installed=installed)
        )

    assert list(tracker_problems(recipe(VRAG), installed=True)) == []
    assert found("console", installed=True) == []
    assert found(["console", "mlflow"], installed=False) == []
    (tmp_path / "mlflow").mkdir()  # as a tracker's own folder of runs
    monkeypatch.syspath_prepend(tmp_path)
    (problem,) = found(["console", "mlflow"], installed=True)
    assert "pip install mlflow" in problem
    (problem,) = found(["wandb", "consol"], installed=False)
    assert "did you mean console?" in problem
    (problem,) = found(None, installed=True)
    assert "no tracker None" in problem
    (problem,) = found(["tracking"], installed=True)
    assert "use wandb" in problem
    (problem,) = found(["zzz"], installed=False)
    assert "use one of wandb" in problem


def test_unknown_keys_are_named_with_the_nearest_known_one():
    config = {"trainer": {"sav_freq": 1}, "dta": {}, "actor_rollout_ref": {"ref": {"strateg": 1}}}
    nearest = ("trainer.save_freq", "data", "actor_rollout_ref.ref.strategy")
    keys = ("trainer.sav_freq", "dta", "actor_rollout_ref.ref.strateg")
    for line, key, known in zip(unknown(config), keys, nearest, strict=True):
        assert line.startswith(f"{key}: ")
        assert known in line


def test_verls_own_fields_of_its_dataclasses_and_free_sections_are_known():
    """`agent_loop_manager_class` is a field of verl's AgentLoopConfig that its YAML leaves out."""
    assert unknown(reference()) == []
    agent, vllm = {"agent_loop_manager_class": "x"}, {"seed": 1}
    rollout = {"agent": agent, "engine_kwargs": {"vllm": vllm}}
    config = {"docagent": {"anything": 1}, "ray_kwargs": {"ray_init": {"num_gpus": 1}}}
    assert unknown({**config, "actor_rollout_ref": {"rollout": rollout}}) == []
