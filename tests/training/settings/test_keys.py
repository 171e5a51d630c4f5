from __future__ import annotations

from docagent_rl.training.settings.keys import reference, unknown_keys


def test_unknown_keys_are_named_with_the_nearest_known_one():
    config = {"trainer": {"sav_freq": 1}, "dta": {}, "actor_rollout_ref": {"ref": {"strateg": 1}}}
    pairs = {
        "trainer.sav_freq": "trainer.save_freq",
        "dta": "data",
        "actor_rollout_ref.ref.strateg": "actor_rollout_ref.ref.strategy",
    }
    for line, (key, known) in zip(unknown_keys(config), pairs.items(), strict=True):
        assert line.startswith(f"{key}: ")
        assert known in line


def test_verls_own_fields_of_its_dataclasses_and_free_sections_are_known():
    """`agent_loop_manager_class` is a field of verl's AgentLoopConfig that its YAML leaves out."""
    assert unknown_keys(reference()) == []
    agent, vllm = {"agent_loop_manager_class": "x"}, {"seed": 1}
    rollout = {"agent": agent, "engine_kwargs": {"vllm": vllm}}
    config = {"docagent": {"anything": 1}, "ray_kwargs": {"ray_init": {"num_gpus": 1}}}
    assert unknown_keys({**config, "actor_rollout_ref": {"rollout": rollout}}) == []
