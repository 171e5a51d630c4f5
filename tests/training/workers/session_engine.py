"""Updates a tiny policy in verl's FSDP2 engine with the loss averaged by session, and the same by hand.

Usage: session_engine.py FOLDER, under RANK and WORLD_SIZE. Rank 0 prints a line of JSON.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM
from verl.utils import tensordict_utils as tu
from verl.utils.distributed import initialize_global_process_group_ray
from verl.utils.metric import Metric
from verl.workers.config import FSDPActorConfig
from verl.workers.utils.losses import ppo_loss

from docagent_rl.training.losses.session_mean import SESSION_TOKENS, SessionMeanLoss
from docagent_rl.training.workers.session_loss import SessionCountWorker
from tests.training.losses.engine_run import (  # first: it sets the environment
    PACKED,
    ROWS,
    batch,
    checkpoint,
    nested,
    worker,
)

CLIP, KL = 0.2, 0.05
SESSION = [0, 1, 0, 1, 2, 0, 1, 3]
"""The rows of a session lie on different workers and in different micro-batches; row 4 is masked."""
TOKENS = [kinds.count("s") for _, kinds in ROWS]
WHOLE = [sum(n for n, other in zip(TOKENS, SESSION, strict=True) if other == own) for own in SESSION]


def actor() -> FSDPActorConfig:
    return FSDPActorConfig(
        strategy="fsdp2",
        rollout_n=1,
        ppo_mini_batch_size=8,
        ppo_micro_batch_size_per_gpu=2,
        use_kl_loss=True,
        kl_loss_coef=KL,
        clip_ratio_c=1e9,
        loss_agg_mode="token-sum",
    )


def rows_of_a_step():
    generator = torch.Generator().manual_seed(3)
    data = batch()
    for name in ("old_log_probs", "ref_log_prob", "advantages"):
        shift = 0.0 if name == "advantages" else 3.0
        data[name] = nested([torch.randn(len(kinds), generator=generator) - shift for _, kinds in ROWS])
    data[SESSION_TOKENS] = nested([torch.tensor([n]) for n in WHOLE])
    return data


def update(
    path: Path, part, mini_batch: int, packed: int | None = None
) -> tuple[dict[str, Tensor], list[float]]:
    """Gradients of the last mini-batch, and the loss of each."""
    made = worker(SessionCountWorker, path, frozen=False, packed=packed)
    made.set_loss_fn(SessionMeanLoss(partial(ppo_loss, config=actor())))
    gradients: dict[str, Tensor] = {}
    step = made.engine.optimizer_step

    def keep() -> float:
        for name, parameter in made.engine.module.named_parameters():
            gradients[name] = parameter.grad.full_tensor().clone()
        return step()

    made.engine.optimizer_step = keep
    data = part.copy()
    tu.assign_non_tensor(data, mini_batch_size=mini_batch, global_batch_size=mini_batch, epochs=1)
    tu.assign_non_tensor(data, dataloader_kwargs={"shuffle": False})
    found = tu.get(made.train_mini_batch(data), "metrics")["loss"]
    return gradients, [float(v.aggregate() if isinstance(v, Metric) else v) for v in _list(found)]


def _list(value) -> list:
    return value if isinstance(value, list) else [value]


def by_hand(path: Path, data, rows: list[int]) -> tuple[float, dict[str, Tensor]]:
    """A token at a time, from dense logits, of a mini-batch of some rows."""
    model = AutoModelForCausalLM.from_pretrained(path, attn_implementation="sdpa", dtype=torch.float32)
    total, share = torch.zeros(()), 0.0
    for row in rows:
        prompt, kinds = ROWS[row]
        ids = data["input_ids"].unbind()[row]
        chosen = model(input_ids=ids[None]).logits[0, :-1].log_softmax(-1).gather(1, ids[1:, None])[:, 0]
        names = ("old_log_probs", "ref_log_prob", "advantages")
        old, ref, advantage = (data[name].unbind()[row] for name in names)
        for t, kind in enumerate(kinds):
            if kind != "s":
                continue
            log_prob = chosen[prompt - 1 + t]
            ratio, a = (log_prob - old[t]).exp(), advantage[t]
            loss = torch.max(-a * ratio, -a * ratio.clamp(1 - CLIP, 1 + CLIP))
            d = ref[t] - log_prob
            total = total + (loss + KL * (d.exp() - d - 1).clamp(-10, 10)) / WHOLE[row]
            share += 1 / WHOLE[row]
    (total / share).backward()
    return (total / share).item(), {name: parameter.grad for name, parameter in model.named_parameters()}


def main(folder: Path) -> None:
    initialize_global_process_group_ray()
    rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    if rank == 0:
        checkpoint(folder / "model", tied=False)
    torch.distributed.barrier()
    whole = rows_of_a_step()
    part = tu.chunk_tensordict(whole, size)[rank]
    tu.assign_non_tensor(part, temperature=1.0, pad_token_id=0)
    report = {}
    for name, mini_batch, packed in (("8", 8, None), ("4", 4, None), ("8 packed", 8, PACKED)):
        gradients, losses = update(folder / "model", part, mini_batch, packed)
        each, local = len(ROWS) // size, mini_batch // size
        # a worker's mini-batches are cut from its own rows, in order
        batches = [
            [worker * each + start + n for worker in range(size) for n in range(local)]
            for start in range(0, each, local)
        ]
        slow = [by_hand(folder / "model", whole, rows) for rows in batches]
        expected = slow[-1][1]
        report[name] = {
            "losses": losses,
            "expected": [loss for loss, _ in slow],
            "error": max(float((g - expected[n]).abs().max()) for n, g in gradients.items()),
            "largest": max(float(g.abs().max()) for g in expected.values()),
        }
    if rank == 0:
        print(json.dumps(report))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
