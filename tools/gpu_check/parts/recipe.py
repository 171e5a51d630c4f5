"""Check two steps of recipes with tiny models, with documents, Ray, vLLM, FSDP2 and weight updates.

On a GPU, each recipe runs with its own switches: bfloat16, packed rows, fused log-probs, dynamic
micro-batches, CUDA graphs, prefix cache, a server that sleeps, images by name. Only sizes and
services are changed. On a CPU, the CPU profile is used. There are few documents, and all have a
text layer, so that no OCR engine is needed. Server and trainer must give every sampled token the
same log-prob, also after an update. Runs follow one another as long as there is time; the result
names those that were not run.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docagent_rl.documents.settings import OcrMode
from docagent_rl.lab.synth.settings import DocumentDifficulty, SynthSettings
from docagent_rl.lab.tiny.demo import prepare_demo
from docagent_rl.rollout.trajectory import Trajectory, read_trajectories
from tools.gpu_check.check import Machine, Result, expect, passed
from tools.gpu_check.runner import DEADLINE

STEPS = 2
SHORT = (
    f"trainer.total_training_steps={STEPS}",
    "trainer.val_before_train=false",
    "trainer.test_freq=-1",
    "trainer.save_freq=-1",
)
SMALL = (
    "+retriever=bm25",
    "docagent.profile=cpu",
    "docagent.provision=docagent_rl.lab.tiny.provision",
    "docagent.text_retriever=${docagent.text_retriever_cpu}",
    "docagent.judge.kind=rule",
    "docagent.rollout.turn_tokens=64",
    "docagent.rollout.min_turn_tokens=8",
    "data.train_batch_size=4",
    "data.val_batch_size=8",
    "data.val_max_samples=16",
    "data.max_prompt_length=1536",
    "data.max_response_length=1024",
    "data.dataloader_num_workers=0",
    "actor_rollout_ref.model.path=${docagent.workspace}/models/tiny_${docagent.tiny_model}_${docagent.model_family}",
    "actor_rollout_ref.actor.ppo_mini_batch_size=4",
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=5120",
    "actor_rollout_ref.actor.optim.lr=1e-4",
    "actor_rollout_ref.actor.optim.lr_warmup_steps_ratio=0",
    "actor_rollout_ref.rollout.n=4",
    "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
    "actor_rollout_ref.rollout.max_model_len=2560",
    "actor_rollout_ref.rollout.max_num_seqs=32",
    "actor_rollout_ref.rollout.gpu_memory_utilization=0.3",
    "actor_rollout_ref.rollout.agent.num_workers=1",
    "reward.num_workers=1",
    "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
    "trainer.nnodes=1",
    "trainer.n_gpus_per_node=1",
    "ray_kwargs.ray_init.num_cpus=16",
)
"""Sizes and services of a run on a GPU, on top of the recipe; no switch that affects how it
computes is among them.
"""
RANKS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
NAMES = ("actor/grad_norm", "actor/loss", "actor/pg_loss")
"""Metrics that must be finite if they exist."""
DOCUMENTS = SynthSettings(
    documents=5, difficulties=(DocumentDifficulty.EASY, DocumentDifficulty.MEDIUM)
)
ENDING_S = 8.0
"""Seconds by which a run is ended before the check's limit, so that earlier runs still count."""
SPARE = 1.1
"""Another run starts only if the time left is this many times that of the longest run so far."""


@dataclass(frozen=True)
class Kind:
    """A recipe with a tiny model: its title in the report, its system, and its overrides."""

    title: str
    recipe: str
    system: str
    more: tuple[str, ...] = ()


RULES = tuple(
    f"docagent.roles.{role}.backend=embedded"
    for role in ("planner", "reader", "answer", "extractor")
)
KINDS = (
    Kind("qwen2_5_vl", "vrag_rl_qwen2_5_vl_7b", "vrag_rl"),
    Kind("qwen3_vl", "vrag_rl_qwen3_vl_4b", "vrag_rl"),
    Kind("text", "mm_doc_r1_qwen3_4b_grpo", "mm_doc_r1", RULES),
    Kind("lora", "vrag_rl_qwen2_5_vl_7b", "vrag_rl", ("+lora=language",)),
)


@dataclass(frozen=True)
class Bound:
    """The nats by which server and trainer may differ at sampled tokens, on average and at most."""

    mean: float
    most: float


BOUNDS = {"cuda": Bound(0.02, 1.0), "cpu": Bound(5e-6, 1e-3)}
"""The bounds by device. In bfloat16 a number has 8 bits: a logit between 4 and 8 is rounded by up
to 1/64, so a log-prob, which is a difference of such numbers, is off by about .01, or less if the
token was nearly certain; kernels round in different orders. A wrong temperature, position or weight
would change the mean by tenths. On one H200, probabilities differed by .0006 on average and by at
most .018; a rare token's log-prob changes by many times as much as its probability, hence the
second bound. In float32, one run had a mean of 1e-6.
"""


def run(machine: Machine, folder: Path) -> Result:
    """Run the check that the module describes."""
    end = float(os.environ.get(DEADLINE, "inf"))
    longest = 0.0
    found = {}
    left_out = []
    for kind in KINDS if machine.gpu else KINDS[:1]:
        if time.time() + SPARE * longest > end or left_out:
            left_out.append(kind.title)
            continue
        began = time.time()
        try:
            found[kind.title] = _one(kind, machine, folder / kind.title, end)
        except subprocess.TimeoutExpired:
            expect(bool(found), f"{kind.title}: did not finish within {time.time() - began:.0f} s")
            left_out.append(kind.title)
        longest = max(longest, time.time() - began)
    apart = {title: steps["apart"]["mean"] for title, steps in found.items()}
    text = "; ".join(f"{title} {mean:.1g}" for title, mean in apart.items())
    rest = f"; NOT RUN for lack of time: {', '.join(left_out)}" if left_out else ""
    summary = (
        f"{STEPS} steps; differences between server and trainer, in nats per token: {text}{rest}"
    )
    return passed(summary, **found, not_run=left_out)


def overrides(kind: Kind, machine: Machine) -> tuple[str, ...]:
    """Return the trainer's arguments for a recipe on this machine, except its folders."""
    if machine.gpu is None:
        return "+profile=cpu", *SHORT, *kind.more
    return *SMALL, *SHORT, *kind.more


def apart(trajectories: list[Trajectory]) -> dict[str, float]:
    """Return the mean and maximum difference between server and trainer at sampled tokens, in nats.

    Raises:
        CheckError: there are no tokens, tokens lack one of the numbers, or a number is not finite.
    """
    sampled = [
        turn for each in trajectories for turn in each.turns if turn.row >= 0 and turn.token_ids
    ]
    gaps = [gap for turn in sampled for gap in _gaps(turn)]
    expect(bool(gaps), "no token was both sampled and trained on")
    expect(all(math.isfinite(gap) for gap in gaps), "some log-probs are not finite")
    return {"mean": sum(gaps) / len(gaps), "most": max(gaps), "tokens": len(gaps)}


def _gaps(turn: Any) -> Iterator[float]:
    lengths = {len(turn.token_ids), len(turn.log_probs), len(turn.trainer_log_probs or ())}
    expect(
        len(lengths) == 1,
        f"the numbers of tokens and of log-probs from server and trainer differ: {lengths}",
    )
    pairs = zip(turn.log_probs, turn.trainer_log_probs, strict=True)
    return (abs(server - trainer) for server, trainer in pairs)


def check_apart(title: str, found: dict[str, float], bound: Bound) -> None:
    """Check that server and trainer differ no more than number formats can explain.

    Raises:
        CheckError: they differ more.
    """
    for name, limit in (("mean", bound.mean), ("most", bound.most)):
        text = (
            f"{title}: server and trainer differ by {found[name]:.2g} nats ({name} of "
            f"{found['tokens']}"
        )
        expect(found[name] < limit, f"{text} tokens), not less than {limit:g}")


def _one(kind: Kind, machine: Machine, folder: Path, end: float) -> dict[str, Any]:
    """Train one recipe until `end` at most.

    Returns:
        the metrics of both steps, and the differences between server and trainer.
    """
    folder.mkdir(parents=True)
    workspace = folder / "workspace"
    run_dir = folder / "run"
    if machine.gpu is None:
        prepare_demo(workspace, synthetic=DOCUMENTS, system=kind.system, ocr=OcrMode.NEVER)
    else:
        # without a system, since the recipe makes the model of its own family
        prepare_demo(workspace, synthetic=DOCUMENTS, system=None, ocr=OcrMode.NEVER)
    places = f"docagent.workspace={workspace}", f"docagent.run_dir={run_dir}"
    _train(
        kind,
        machine,
        folder,
        places,
        None if math.isinf(end) else max(1.0, end - ENDING_S - time.time()),
    )
    return judged(kind.title, run_dir, BOUNDS[machine.device])


def judged(title: str, run_dir: Path, bound: Bound) -> dict[str, Any]:
    """Return the metrics of a run's steps, and the differences between server and trainer.

    Raises:
        CheckError: a number is not finite, there is no gradient, or the log-probs of server and
            trainer differ too much.
    """
    steps = [
        json.loads((run_dir / "metrics" / f"{step}.json").read_text())
        for step in range(1, STEPS + 1)
    ]
    bad = [
        name for step in steps for name in NAMES if name in step and not math.isfinite(step[name])
    ]
    expect(not bad, f"{title}: not numbers: {bad}")
    expect(any(step.get("actor/grad_norm", 0) > 0 for step in steps), f"{title}: no gradient")
    found: dict[str, Any] = {}
    for number, step in enumerate(steps, start=1):
        played = list(read_trajectories(run_dir / "trajectories" / f"{number}.jsonl"))
        found[f"step {number}"] = step | {"apart": apart(played)}
        check_apart(f"{title}, step {number}", found[f"step {number}"]["apart"], bound)
    return found | {
        "apart": max((found[f"step {n}"]["apart"] for n in (1, 2)), key=lambda each: each["mean"])
    }


def _train(
    kind: Kind, machine: Machine, folder: Path, places: tuple[str, ...], limit_s: float | None
) -> None:
    command = [sys.executable, "-m", "verl.trainer.main_ppo", "--config-name", kind.recipe]
    # Ray must not get the check's rank, nor its TMPDIR, because sockets need a short path. On a
    # CPU, the profile counts a GPU that does not exist, which Ray refuses if CUDA_VISIBLE_DEVICES
    # is empty.
    hidden = (*RANKS, "TMPDIR", *(() if machine.gpu else ("CUDA_VISIBLE_DEVICES",)))
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment["RAY_ADDRESS"] = "local"
    command += [*places, "docagent.console=full", *overrides(kind, machine)]
    done = subprocess.run(command, cwd=folder, env=environment, check=False, timeout=limit_s)
    expect(done.returncode == 0, f"{kind.title}: status {done.returncode}; the log says why")
