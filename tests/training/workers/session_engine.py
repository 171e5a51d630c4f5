"""The loss averaged by session in verl's FSDP2 engine of a tiny policy, and the same by hand."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from transformers import AutoModelForCausalLM
from verl.utils import tensordict_utils as tu
from verl.workers.utils.losses import ppo_loss

from docagent_rl.training.losses.session_mean import SESSION_TOKENS, SessionMeanLoss
from docagent_rl.training.workers.session_loss import SessionCountWorker
from tests.training import engines
from tests.training.losses.batches import actor, nested, token_loss

SESSION = [0, 1, 0, 1, 2, 0, 1, 3]
"""The rows of a session lie on different workers and in different micro-batches; row 4 is masked."""
TOKENS = [kinds.count("s") for _, kinds in engines.ROWS]
WHOLE = [sum(n for n, other in zip(TOKENS, SESSION, strict=True) if other == own) for own in SESSION]


def by_hand(path: Path, data: TensorDict, rows: list[int]) -> tuple[float, dict[str, Any]]:
    """A token at a time, from dense logits, of a mini-batch of some rows."""
    model = AutoModelForCausalLM.from_pretrained(path, attn_implementation="sdpa", dtype=torch.float32)
    total, share = torch.zeros(()), 0.0
    for row in rows:
        prompt, kinds = engines.ROWS[row]
        ids = data["input_ids"].unbind()[row]
        chosen = model(input_ids=ids[None]).logits[0, :-1].log_softmax(-1).gather(1, ids[1:, None])[:, 0]
        names = ("old_log_probs", "ref_log_prob", "advantages")
        old, ref, advantage = (data[name].unbind()[row] for name in names)
        for t in (t for t, kind in enumerate(kinds) if kind == "s"):
            loss = token_loss(chosen[prompt - 1 + t], old[t], ref[t], advantage[t], clip_c=1e9)
            total, share = total + loss / WHOLE[row], share + 1 / WHOLE[row]
    (total / share).backward()
    return (total / share).item(), {name: parameter.grad for name, parameter in model.named_parameters()}


def report(folder: Path) -> dict[str, Any]:
    rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    path = engines.once(engines.text_model, folder / "model")
    data = engines.with_numbers(engines.text_batch())
    data[SESSION_TOKENS] = nested([torch.tensor([n]) for n in WHOLE])
    part = tu.chunk_tensordict(data, size)[rank]
    tu.assign_non_tensor(part, temperature=1.0, pad_token_id=0)
    config = actor("token-sum", clip_ratio_c=1e9)
    found = {}
    for name, mini_batch, packed in (("8", 8, None), ("4", 4, None), ("8 packed", 8, engines.PACKED)):
        model = None if packed is None else engines.FUSED
        made = engines.worker(SessionCountWorker, path, packed=packed, model=model)
        made.set_loss_fn(SessionMeanLoss(partial(ppo_loss, config=config)))
        gradients, metrics = engines.update(made, part, mini_batch)
        each, local = len(engines.ROWS) // size, mini_batch // size
        # a worker's mini-batches are cut from its own rows, in order
        batches = [
            [worker * each + start + n for worker in range(size) for n in range(local)]
            for start in range(0, each, local)
        ]
        slow = [by_hand(path, data, rows) for rows in batches]
        found[name] = {
            "losses": metrics["loss"],
            "expected": [loss for loss, _ in slow],
            "error": engines.apart(gradients, slow[-1][1]),
        }
    return found


if __name__ == "__main__":
    engines.program(report)
