"""Program: losses in verl's FSDP2 engines of a tiny text model, and the same by hand.

They are the exact observation KL, and the one averaged by trajectory.
"""

import copy
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel
from verl.utils import tensordict_utils as tu
from verl.workers.utils.losses import ppo_loss

from docagent_rl.losses.config import KlPlace, KlScope, KlType, ObservationKl
from docagent_rl.losses.model_parts import copied_head
from docagent_rl.losses.positions import ObservationRule
from docagent_rl.training.tensors import ROLLOUT_MASK
from docagent_rl.training.workers.observation_kl import (
    EngineExactTerm,
    ObservationKlLoss,
    ReferenceStates,
    sample_reference,
)
from docagent_rl.training.workers.policy import PolicyWorker, ReferenceWorker
from docagent_rl.training.workers.trajectory_loss import (
    TRAJECTORY_TOKENS,
    TrajectoryCountWorker,
    TrajectoryMeanLoss,
)
from tests.training import engines
from tests.training.workers.batches import actor, nested, token_loss

COEF, TEMPERATURE = 0.3, 0.8
RULE = ObservationRule(KlScope.IMAGE, KlPlace.LABEL, engines.IMAGE)
TRAJECTORY = [0, 1, 0, 1, 2, 0, 1, 3]
"""The rows of a trajectory lie on different workers and in different micro-batches; row 4 is
masked.
"""
TOKENS = [kinds.count("s") for _, kinds in engines.ROWS]
WHOLE = [
    sum(n for n, other in zip(TOKENS, TRAJECTORY, strict=True) if other == own)
    for own in TRAJECTORY
]


def moved(module: torch.nn.Module) -> None:
    """Move the policy away from the reference by the same amount on every rank."""
    for index, parameter in enumerate(module.parameters()):
        local = parameter.to_local() if hasattr(parameter, "to_local") else parameter
        local.data += 0.05 * torch.sin(torch.tensor(float(index)))


def by_hand(
    policy: PreTrainedModel,
    reference: PreTrainedModel,
    data: TensorDict,
    rejected: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the loss and the mean divergence from dense logits, row by row; all of a row may be
    rejected.
    """
    surrogate, divergences = torch.zeros(()), []
    for row, (ids, (prompt, kinds)) in enumerate(
        zip(data["input_ids"].unbind(), engines.ROWS, strict=True)
    ):
        own, ref = (
            model(input_ids=ids[None]).logits[0] / TEMPERATURE for model in (policy, reference)
        )
        chosen = own[:-1].log_softmax(-1).gather(1, ids[1:, None])[:, 0]
        surrogate = surrogate - 0.01 * chosen[prompt - 1 :].sum() / len(engines.ROWS)
        trained = "s" in kinds and row != rejected
        at = [prompt + i - 1 for i, kind in enumerate(kinds) if kind == "i" and trained]
        p, q = (logits[at, : engines.TOKENIZER].log_softmax(-1) for logits in (own, ref.detach()))
        divergences.append((p.exp() * (p - q)).sum(-1))
    mean = torch.cat(divergences).mean()
    return surrogate + COEF * mean, mean


class Run:
    """A policy and a reference from one checkpoint, connected as `ObservationKlMixin` connects
    them.
    """

    def __init__(self, path: Path, packed: int | None) -> None:
        model = {"use_fused_kernels": False} if packed is None else engines.FUSED
        options = {"packed": packed, "model": {**model, "enable_gradient_checkpointing": True}}
        self.policy = engines.worker(PolicyWorker, path, **options)
        self.reference = engines.worker(
            ReferenceWorker, path, engine={"forward_only": True}, **options
        )
        config = ObservationKl(
            coef=COEF, type=KlType.EXACT, scope=KlScope.IMAGE, token_chunk=2, vocabulary_chunk=16
        )
        self.states = self.reference.states = ReferenceStates()
        sample_reference(self.reference.engine, RULE, self.states)
        head = copied_head(self.reference.engine.module, torch.float32, torch.device("cpu"))
        exact = EngineExactTerm(
            config, self.policy.engine.module, self.states, head, engines.TOKENIZER
        )
        self.policy.rule, self.policy.exact = RULE, exact
        self.policy.set_loss_fn(
            ObservationKlLoss(
                engines.surrogate, config, RULE, aggregation="token-mean", exact=exact
            )
        )

    def update(
        self, part: TensorDict, rejected: int | None = None
    ) -> tuple[dict[str, Tensor], dict[str, float]]:
        """Make one step of the trainer: the reference's pass, then the update; return gradients and
        metrics.

        All tokens of a row may be rejected between the two.
        """
        data = part.copy()
        data["ref_log_prob"] = nested(engines.outputs(self.reference, data, "log_probs"))
        kept = len(self.states)
        data[ROLLOUT_MASK] = data["response_mask"]
        masks = data["response_mask"].unbind()
        data["response_mask"] = nested([mask * (row != rejected) for row, mask in enumerate(masks)])
        gradients, metrics = engines.update(self.policy, data, len(engines.ROWS))
        numbers = {"rows_kept": kept, "rows_left": len(self.states)}
        return gradients, numbers | {name: values[0] for name, values in metrics.items()}


def compare(folder: Path, tied: bool, packed: int | None) -> dict[str, Any]:
    engines.once(partial(engines.text_model, tied=tied), folder)
    run, all_rows = Run(folder, packed), engines.text_batch()
    size = torch.distributed.get_world_size()
    part = tu.chunk_tensordict(all_rows, size)[torch.distributed.get_rank()]
    tu.assign_non_tensor(part, temperature=TEMPERATURE)
    _, before = run.update(part)
    moved(run.policy.engine.module)
    gradients, after = run.update(part)
    # row 0 of all, which has images
    rejected = 0 if torch.distributed.get_rank() == 0 else None
    without_gradients, without = run.update(part, rejected)

    own = AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation="sdpa", dtype=torch.float32
    )
    ref = copy.deepcopy(own)
    moved(own)
    loss, mean = by_hand(own, ref, all_rows)
    error = engines.apart(gradients, slopes(own, loss))
    other, other_mean = by_hand(own, ref, all_rows, rejected=0)
    other_error = engines.apart(without_gradients, slopes(own, other))
    head = "lm_head.weight" in gradients
    return {
        "before": before,
        "after": after,
        "loss": loss.item(),
        "kl": mean.item(),
        "error": error,
        "head": head,
        "rejected": {
            "kl": without["kl_observation"],
            "expected": other_mean.item(),
            "error": other_error,
            "rows_left": without["rows_left"],
        },
    }


def slopes(model: PreTrainedModel, loss: Tensor) -> dict[str, Tensor]:
    names, parameters = zip(*model.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


def trajectories_by_hand(
    path: Path, data: TensorDict, rows: list[int]
) -> tuple[float, dict[str, Any]]:
    """Compute the loss of a mini-batch of some rows token by token, from dense logits."""
    model = AutoModelForCausalLM.from_pretrained(
        path, attn_implementation="sdpa", dtype=torch.float32
    )
    total, share = torch.zeros(()), 0.0
    for row in rows:
        prompt, kinds = engines.ROWS[row]
        ids = data["input_ids"].unbind()[row]
        chosen = (
            model(input_ids=ids[None]).logits[0, :-1].log_softmax(-1).gather(1, ids[1:, None])[:, 0]
        )
        names = ("old_log_probs", "ref_log_prob", "advantages")
        old, ref, advantage = (data[name].unbind()[row] for name in names)
        for t in (t for t, kind in enumerate(kinds) if kind == "s"):
            loss = token_loss(chosen[prompt - 1 + t], old[t], ref[t], advantage[t], clip_c=1e9)
            total, share = total + loss / WHOLE[row], share + 1 / WHOLE[row]
    (total / share).backward()
    return (total / share).item(), {
        name: parameter.grad for name, parameter in model.named_parameters()
    }


def trajectories(path: Path) -> dict[str, Any]:
    rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    data = engines.with_numbers(engines.text_batch())
    data[TRAJECTORY_TOKENS] = nested([torch.tensor([n]) for n in WHOLE])
    part = tu.chunk_tensordict(data, size)[rank]
    tu.assign_non_tensor(part, temperature=1.0, pad_token_id=0)
    config = actor("token-sum", clip_ratio_c=1e9)
    found = {}
    for name, mini_batch, packed in (
        ("8", 8, None),
        ("4", 4, None),
        ("8 packed", 8, engines.PACKED),
    ):
        model = None if packed is None else engines.FUSED
        made = engines.worker(TrajectoryCountWorker, path, packed=packed, model=model)
        made.set_loss_fn(TrajectoryMeanLoss(partial(ppo_loss, config=config)))
        gradients, metrics = engines.update(made, part, mini_batch)
        each, local = len(engines.ROWS) // size, mini_batch // size
        # a worker's mini-batches are cut from its own rows, in order
        batches = [
            [worker * each + start + n for worker in range(size) for n in range(local)]
            for start in range(0, each, local)
        ]
        slow = [trajectories_by_hand(path, data, rows) for rows in batches]
        found[name] = {
            "losses": metrics["loss"],
            "expected": [loss for loss, _ in slow],
            "error": engines.apart(gradients, slow[-1][1]),
        }
    return found


def report(folder: Path) -> dict[str, Any]:
    kinds = ("rows untied", "packed untied", "packed tied")
    found: dict[str, Any] = {
        name: compare(
            folder / name, name.endswith(" tied"), engines.PACKED if "packed" in name else None
        )
        for name in kinds
    }
    return found | {"trajectories": trajectories(folder / kinds[0])}


if __name__ == "__main__":
    engines.program(report)
