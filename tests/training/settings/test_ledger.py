"""Every key of verl has an entry in a ledger, and a changed key is refused as its entry says."""

import copy
import dataclasses
import importlib

import pytest
import yaml
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf

from docagent_rl.training.settings.keys import (
    key_problems,
    reference,
    sft_key_problems,
    sft_reference,
)
from docagent_rl.training.settings.ledger import (
    RL_FILE,
    SFT_FILE,
    KeyEntry,
    KeyKind,
    leaves,
    ledger,
    parse,
)

VRAG, ALDEN, SFT = "vrag_rl_qwen2_5_vl_7b", "alden_qwen2_5_vl_7b", "sft_vrag_rl_qwen2_5_vl_3b"
LEDGERS = {RL_FILE: reference, SFT_FILE: sft_reference}
COMPOSED = {RL_FILE: "ppo_trainer", SFT_FILE: "sft_trainer_engine"}
OURS = {
    RL_FILE: {"model_engine", "reward.custom_reward_function.reward_kwargs"},
    SFT_FILE: {"data.store"},
}
"""Leaves that are only in one of the two: the name of Hydra's group of engines, and keys that we
add.
"""


def without_entry(file, known) -> list[str]:
    return [key for key, _ in leaves(known) if ledger(file).entry(key) is None]


@pytest.mark.parametrize("file", LEDGERS)
def test_every_leaf_of_verls_configuration_has_an_entry(file):
    assert without_entry(file, LEDGERS[file]()) == []


@pytest.mark.parametrize("file", LEDGERS)
def test_a_key_of_a_newer_version_has_none(file):
    newer = copy.deepcopy(LEDGERS[file]())
    newer["trainer"]["new_switch"] = 1
    newer["data"]["new_section"] = {"depth": 2}
    assert set(without_entry(file, newer)) == {"trainer.new_switch", "data.new_section.depth"}


@pytest.mark.parametrize("file", LEDGERS)
def test_what_verl_composes_has_the_same_leaves(file):
    """The reference is read from a file that verl has generated from the configurations that Hydra
    composes.
    """
    with initialize_config_module("verl.trainer.config", version_base=None):
        found = OmegaConf.to_container(compose(COMPOSED[file]), resolve=False)
    assert dict(leaves(found)).keys() ^ dict(leaves(LEDGERS[file]())).keys() == OURS[file]


def fields_of(known, key) -> set[str]:
    """Return the fields of verl's dataclass that reads the section of a key."""
    section = known
    for name in key.split(".")[:-1]:
        section = section.get(name) or {}
    target = section.get("_target_", "")
    module, _, name = target.rpartition(".")
    if not module:
        return set()
    return {
        field.name for field in dataclasses.fields(getattr(importlib.import_module(module), name))
    }


@pytest.mark.parametrize("file", LEDGERS)
def test_no_entry_is_of_a_key_that_verl_does_not_have(file):
    known = LEDGERS[file]()
    present = dict(leaves(known))
    for key in ledger(file).keys.keys() - present.keys():
        assert key.startswith("*.") or key.rpartition(".")[2] in fields_of(known, key), key
    for section in ledger(file).sections:
        assert any(key.startswith(section) for key in present), section


@pytest.mark.parametrize(("file", "recipe_name"), [(RL_FILE, ALDEN), (SFT_FILE, SFT)])
def test_every_entry_does_as_it_says(recipe, file, recipe_name):
    """Every key that is not to be changed gets a value that it cannot have, all at once."""
    run = recipe(recipe_name, cpu=False)
    if file == RL_FILE:
        run.trainer.v1.trainer_mode = "docagent_separate_async"
    OmegaConf.resolve(run)
    OmegaConf.set_struct(run, False)
    restricted, free = set(), []
    for key, _ in leaves(LEDGERS[file]()):
        entry = ledger(file).entry(key)
        outside = entry.modes and "separate_async" not in entry.modes
        if outside or (
            (entry.kind is not KeyKind.READ or entry.values is not None) and not entry.rule
        ):
            restricted.add(key)
            OmegaConf.update(run, key, f"my {key}", merge=False)
        else:
            free.append(key)
    assert {
        key.partition("=")[0] for key in ledger(file).problems(run, LEDGERS[file]())
    } == restricted
    for key in set(free) - {"trainer.v1.trainer_mode"}:
        OmegaConf.update(run, key, f"my {key}", merge=False)
    assert {
        key.partition("=")[0] for key in ledger(file).problems(run, LEDGERS[file]())
    } <= restricted


@pytest.mark.parametrize("profile", [True, False])
@pytest.mark.parametrize("name", [VRAG, ALDEN])
def test_recipes_change_nothing_that_is_refused(recipe, name, profile):
    run = recipe(name, cpu=profile)
    assert list(ledger().problems(run, reference())) == []
    OmegaConf.resolve(run)
    assert list(ledger().problems(run, reference())) == []


CHANGES = {
    "reward.reward_manager.name=dapo": ("is not read", "set docagent.env.reward"),
    "actor_rollout_ref.rollout.multi_turn.max_assistant_turns=3": ("is not read", "docagent.env"),
    "data.truncation=left": ("is not read", "set docagent.rollout.unplayable"),
    "reward_model.enable=true": ("is not read", "reward.custom_reward_function"),
    "reward.reward_model.enable=true": ("cannot be used", "docagent.judge"),
    "actor_rollout_ref.rollout.name=sglang": ("it must be vllm", "vLLM servers"),
    "actor_rollout_ref.rollout.agent.default_agent_loop=tool_agent": (
        "it must be docagent",
        "agent loop",
    ),
    "actor_rollout_ref.actor.use_torch_compile=false": (
        "is not read",
        "fsdp_config.use_torch_compile",
    ),
    "actor_rollout_ref.actor.clip_ratio=0.3": ("is not read", "clip_ratio_low and clip_ratio_high"),
    "actor_rollout_ref.ref.fsdp_config.param_offload=true": ("has no effect", "host memory"),
    "trainer.use_v1=false": ("must not be changed", "V1"),
    "trainer.balance_batch=false": ("has no effect", "remove it"),
    "distillation.enabled=true": ("cannot be used", "teacher"),
    "trainer.v1.sampler.max_off_policy_threshold=2": (
        "docagent_colocate_async or",
        "docagent_sync: remove",
    ),
    "actor_rollout_ref.rollout.nnodes=1": ("=docagent_separate_async,", "docagent_sync"),
    "+actor_rollout_ref.rollout.repetition_penalty=1.2": ("has no effect", "1.0"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_key_is_one_sentence_with_what_to_do(recipe, change):
    key, _, value = change.removeprefix("+").partition("=")
    run = recipe(VRAG, cpu=False)
    OmegaConf.update(run, key, yaml.safe_load(value), force_add=True)
    (problem,) = ledger().problems(run, reference())
    assert problem.startswith(f"{key}=")
    assert all(part in problem for part in CHANGES[change]), problem


def test_a_default_that_follows_another_key_is_no_change(recipe):
    changes = (
        "critic.ppo_max_token_len_per_gpu=512",  # forward_max_token_len_per_gpu follows
        "critic.ppo_micro_batch_size_per_gpu=2",
        "actor_rollout_ref.rollout.n=3",  # rollout_n of three sections
        "data.max_prompt_length=100",  # rollout.prompt_length
        "trainer.n_gpus_per_node=4",  # rollout.n_gpus_per_node
    )
    run = recipe(ALDEN, *changes, cpu=False)
    assert list(ledger().problems(run, reference())) == []
    run.critic.forward_max_token_len_per_gpu = 513
    (problem,) = ledger().problems(run, reference())
    assert problem.startswith("critic.forward_max_token_len_per_gpu=513: it is not read")


def test_modes_of_ones_own_may_read_what_they_like(recipe):
    run = recipe(
        VRAG, "trainer.v1.trainer_mode=mine", "trainer.v1.sampler.max_off_policy_threshold=2"
    )
    assert list(ledger().problems(run, reference())) == []


def test_a_key_that_neither_verl_nor_its_ledger_has_is_unknown():
    rollout = {"rollout": {"enable_sleep_mode": False, "layer_name_map": {}}}
    (problem,) = key_problems(OmegaConf.create({"actor_rollout_ref": rollout}))
    assert problem.startswith("actor_rollout_ref.rollout.layer_name_map: unknown key")
    (problem,) = key_problems(
        OmegaConf.create({"actor_rollout_ref": {"rollout": {"enable_sleepmode": 1}}})
    )
    assert "did you mean actor_rollout_ref.rollout.enable_sleep_mode?" in problem
    assert (
        list(
            sft_key_problems(
                OmegaConf.create({"engine": {"mixed_precision": {"param_dtype": "fp32"}}})
            )
        )
        == []
    )


WRONG = {
    "has two entries": [{"keys": "lr lr", "kind": "read"}],
    "`why` is missing": [{"keys": "lr", "kind": "refused"}],
    "`instead` is missing": [{"keys": "lr", "kind": "replaced", "why": "it is old"}],
    "listed one by one": [{"keys": "*", "kind": "read"}],
    "is not a valid KeyKind": [{"keys": "lr", "kind": "unread"}],
}


@pytest.mark.parametrize("message", WRONG)
def test_entries_that_say_too_little_are_refused(message):
    with pytest.raises(ValueError, match=message):
        parse([{"section": "optim", **group} for group in WRONG[message]])


def test_the_nearest_section_decides():
    made = parse(
        [
            {"section": "*", "keys": "_target_", "kind": "set", "why": "it is a class"},
            {"section": "a", "keys": "*", "kind": "refused", "why": "it breaks"},
            {"section": ["a.b", "c"], "keys": "x y", "kind": "read"},
            {"section": "a", "keys": "b.z.*", "kind": "without effect", "why": "nobody reads it"},
        ]
    )
    assert made.entry("a.b.x") == KeyEntry(KeyKind.READ) == made.entry("c.y")
    assert made.entry("a.b.other").kind is KeyKind.REFUSED
    assert made.entry("a.b.z.deep.er").kind is KeyKind.WITHOUT_EFFECT
    assert made.entry("c._target_").kind is KeyKind.SET
    assert made.entry("a._target_").kind is KeyKind.REFUSED
    assert made.entry("c.other") is None
