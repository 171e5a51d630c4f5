"""verl's classes of a configuration, executed without the rest of verl, say what verl says."""

import subprocess
import sys

PROGRAM = """
import sys
from omegaconf import OmegaConf
from docagent_rl.checks.recipe_check import check_overridden, composed_recipe
from docagent_rl.training.settings.arithmetic import verls_problems
from docagent_rl.training.settings.verl_classes import accepted, verls_module

RUN = "vrag_rl_qwen3_vl_4b"
ACTOR = "actor_rollout_ref.actor"
OVERRIDES = (
    [],
    ["+profile=cpu"],
    ["actor_rollout_ref.rollout.calculate_log_probs=7"],
    [f"{ACTOR}.loss_agg_mode=mean"],
    [f"{ACTOR}.use_dynamic_bsz=false", f"{ACTOR}.ppo_micro_batch_size_per_gpu=null"],
    [f"++{ACTOR}.no_such_key=1"],
    ["+lora=gpu_80"],
    ["+lora=gpu_80", "actor_rollout_ref.model.lora_rank=512"],
    ["+lora=gpu_80", "actor_rollout_ref.model.lora_rank=513"],
)


def validates(config):
    def check():
        from verl.utils.config import omega_conf_to_dataclass, validate_config
        validate_config(config, False, use_critic=False)
        omega_conf_to_dataclass(config.actor_rollout_ref.rollout)
    return check


def passes(check):
    try:
        check()
    except Exception:
        return False
    return True


checks = [validates(composed_recipe(RUN, each)) for each in OVERRIDES]
without = [accepted(check) for check in checks]
trackers = verls_module("verl.utils.tracking").Tracking.supported_backend
assert "verl" not in sys.modules
assert not {"ray", "transformers", "tensordict"} & set(sys.modules)

import verl.utils.tracking
assert trackers == verl.utils.tracking.Tracking.supported_backend
assert not any(map(accepted, checks)), "verl itself has to be asked once it is imported"
print(without, [passes(check) for check in checks], file=sys.stderr)
"""


def test_they_accept_what_verl_accepts_and_nothing_that_it_refuses():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    without, with_verl = done.stderr.strip().splitlines()[-1].split("] [")
    # about a large rank of LoRA, verl itself is asked
    assert without == "[True, True, True, False, False, False, True, False, False"
    assert with_verl == "True, True, True, False, False, False, True, True, False]"


def test_a_recipe_is_checked_without_verl_and_what_it_imports():
    program = (
        "import sys; from docagent_rl.checks.recipe_check import check_recipe\n"
        "print([found.problem for found in check_recipe('vrag_rl_qwen3_vl_4b')])\n"
        "print(sorted({'verl', 'ray', 'vllm', 'transformers', 'tensordict'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["[None, None]", "[]"]
