"""Two steps of a recipe with a tiny model: documents, Ray, vLLM, FSDP2, weight update, as in `make train`.

On a GPU with the recipe's own precision, attention and sleeping server instead of the CPU profile's.
Documents are few and have a text layer, so that no engine of OCR is needed. Server and trainer have to agree
on the probabilities of what was sampled, also after an update.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

from docagent_rl.lab.synth.settings import Difficulty, SynthSettings
from docagent_rl.lab.tiny.demo import prepare_demo
from tools.gpu_check.check import Machine, Result, expect, passed

RECIPE = "vrag_rl_qwen2_5_vl_7b"
STEPS = 2
SHORT = (
    f"trainer.total_training_steps={STEPS}",
    "trainer.val_before_train=false",
    "trainer.test_freq=-1",
    "trainer.save_freq=-1",
)
MIXED = "{param_dtype: bf16, reduce_dtype: fp32, buffer_dtype: fp32}"
ON_A_GPU = (
    "trainer.device=cuda",
    "actor_rollout_ref.model.use_remove_padding=true",
    "actor_rollout_ref.model.enable_gradient_checkpointing=true",
    "actor_rollout_ref.model.override_config.attn_implementation=flash_attention_2",
    "actor_rollout_ref.actor.fsdp_config.dtype=bfloat16",
    f"actor_rollout_ref.actor.fsdp_config.mixed_precision={MIXED}",
    "actor_rollout_ref.ref.fsdp_config.dtype=bfloat16",
    f"actor_rollout_ref.ref.fsdp_config.mixed_precision={MIXED}",
    "actor_rollout_ref.rollout.dtype=bfloat16",
    "actor_rollout_ref.rollout.enable_sleep_mode=true",
    "actor_rollout_ref.rollout.free_cache_engine=true",
    "actor_rollout_ref.rollout.gpu_memory_utilization=0.3",
)
RANKS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
NAMES = ("actor/grad_norm", "actor/loss", "actor/pg_loss")
"""Metrics that have to be numbers, where they are there."""
DOCUMENTS = SynthSettings(documents=5, difficulties=(Difficulty.EASY, Difficulty.MEDIUM))
APART = "training/rollout_probs_diff_mean"
AGREED = {"cuda": 5e-3, "cpu": 1e-4}
"""Most of that mean difference, in bfloat16 and in float32; one H200 had 6e-4."""


def run(machine: Machine, folder: Path) -> Result:
    """See the module."""
    overrides = SHORT if machine.gpu is None else SHORT + ON_A_GPU
    command = [sys.executable, "-m", "verl.trainer.main_ppo", "--config-name", RECIPE, "+profile=cpu"]
    workspace = folder / "workspace"
    prepare_demo(workspace, synthetic=DOCUMENTS)
    places = [f"docagent.workspace={workspace}", f"docagent.run_dir={folder / 'run'}"]
    # the rank of a check is none of Ray's business, and its sockets need a short path; without a GPU, the
    # profile counts one that is not there, which Ray refuses where the variable says that there is none
    hidden = (*RANKS, "TMPDIR", *(() if machine.gpu else ("CUDA_VISIBLE_DEVICES",)))
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    run = subprocess.run([*command, *places, *overrides], cwd=folder, env=environment, check=False)
    expect(run.returncode == 0, f"the run ended with status {run.returncode}; its log says why")
    metrics = folder / "run" / "metrics"
    found = [json.loads((metrics / f"{step}.json").read_text()) for step in range(1, STEPS + 1)]
    bad = [name for step in found for name in NAMES if name in step and not math.isfinite(step[name])]
    expect(not bad, f"not numbers: {bad}")
    expect(any(step.get("actor/grad_norm", 0) > 0 for step in found), "no step had a gradient")
    apart = max(step[APART] for step in found)
    limit = AGREED[machine.device]
    expect(
        apart < limit,
        f"server and trainer are {apart:.2g} apart in the mean probability, not below {limit:g}",
    )
    by_step = {f"step {number}": step for number, step in enumerate(found, start=1)}
    return passed(f"{RECIPE}: {STEPS} steps, server and trainer {apart:.1g} apart", **by_step)
