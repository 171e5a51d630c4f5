from __future__ import annotations

from docagent_rl.training.settings.keys import reference, unknown_keys


def test_verl_knows_its_own_keys():
    assert unknown_keys(reference()) == []


def test_unknown_keys_are_named_with_the_nearest_known_one():
    config = {"trainer": {"sav_freq": 1}, "dta": {}, "actor_rollout_ref": {"ref": {"strateg": 1}}}
    assert unknown_keys(config) == [
        "trainer.sav_freq: unknown key; did you mean trainer.save_freq?",
        "dta: unknown key; did you mean data?",
        "actor_rollout_ref.ref.strateg: unknown key; did you mean actor_rollout_ref.ref.strategy?",
    ]


def test_fields_of_the_dataclass_behind_a_section_are_known():
    """`agent_loop_manager_class` is a field of verl's AgentLoopConfig that its YAML leaves out."""
    config = {"actor_rollout_ref": {"rollout": {"agent": {"agent_loop_manager_class": "x"}}}}
    assert unknown_keys(config) == []


def test_free_sections_are_left_alone():
    config = {
        "docagent": {"anything": 1},
        "ray_kwargs": {"ray_init": {"num_gpus": 1}},
        "actor_rollout_ref": {"rollout": {"engine_kwargs": {"vllm": {"seed": 1}}}},
    }
    assert unknown_keys(config) == []
