# ruff: noqa: E402  (the environment decides what verl finds at import)
"""Runs verl's FSDP2 engines of a tiny text model with the exact observation KL, and the same by hand.

Usage: engine_run.py FOLDER, under RANK and WORLD_SIZE. Rank 0 prints a line of JSON.
"""

from __future__ import annotations

import copy
import json
import os
import sys
from pathlib import Path
from typing import Any

for name, value in {
    "RANK": "0",
    "WORLD_SIZE": "1",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29555",
}.items():
    os.environ.setdefault(name, value)
os.environ |= {"VERL_PLATFORM": "cpu", "HF_HUB_OFFLINE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}

import torch
import verl  # noqa: F401  (loads the plugin: platform, patches)
from tensordict import TensorDict
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel, Qwen2Config, Qwen2ForCausalLM
from verl.trainer.config import CheckpointConfig
from verl.utils import tensordict_utils as tu
from verl.utils.distributed import initialize_global_process_group_ray
from verl.utils.metric import Metric
from verl.workers.config import (
    FSDPEngineConfig,
    FSDPOptimizerConfig,
    HFModelConfig,
    TrainingWorkerConfig,
)

from docagent_rl.losses.config import KlPlace, KlScope, KlType, ObservationKl
from docagent_rl.losses.heads import copied_head
from docagent_rl.losses.positions import ObservationRule
from docagent_rl.training.losses.batch import response_part
from docagent_rl.training.losses.exact_term import EngineExactTerm
from docagent_rl.training.losses.reference import ReferenceStates, record_reference
from docagent_rl.training.losses.visual_kl import ObservationKlLoss
from docagent_rl.training.workers.policy import PolicyWorker, ReferenceWorker

IMAGE, VOCABULARY, TOKENIZER = 5, 67, 61
COEF, TEMPERATURE = 0.3, 0.8
ROWS = [
    (3, "sooiiiosss"),
    (4, "iiiis"),
    (2, "sss"),
    (5, "soiisooiis"),
    (2, "oiioo"),
    (6, "ssiis"),
    (3, "s"),
    (4, "oois"),
]
"""Length of the prompt; then sampled tokens, other observations and image placeholders of the response."""
PACKED = 24
"""Tokens of a micro-batch: one or more rows of up to 15."""
RULE = ObservationRule(KlScope.IMAGE, KlPlace.LABEL, IMAGE)


def checkpoint(folder: Path, tied: bool) -> Path:
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=64,
        tie_word_embeddings=tied,
        initializer_range=0.3,
        dtype="float32",
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    return folder


def nested(rows: list[Tensor]) -> Tensor:
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def batch(seed: int = 0) -> TensorDict:
    """In the layout that verl's V1 trainer hands to its workers."""
    generator = torch.Generator().manual_seed(seed)
    prompts, responses, masks = [], [], []
    for prompt, kinds in ROWS:
        prompts.append(torch.randint(10, TOKENIZER, (prompt,), generator=generator))
        drawn = torch.randint(10, TOKENIZER, (len(kinds),), generator=generator)
        responses.append(torch.where(torch.tensor([k == "i" for k in kinds]), IMAGE, drawn))
        masks.append(torch.tensor([k == "s" for k in kinds]).long())
    rows = [torch.cat(pair) for pair in zip(prompts, responses, strict=True)]
    columns = {
        "input_ids": rows,
        "position_ids": [torch.arange(len(row)) for row in rows],
        "prompts": prompts,
        "responses": responses,
        "response_mask": masks,
        "loss_mask": masks,
    }
    return TensorDict({key: nested(value) for key, value in columns.items()}, batch_size=len(rows))


def worker(
    kind: type,
    path: Path,
    *,
    frozen: bool,
    model_type: str = "language_model",
    packed: int | None = None,
):
    """With micro-batches of two rows; `packed`: of up to so many tokens, and with verl's fused kernels."""
    precision = {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
    engine = FSDPEngineConfig(
        strategy="fsdp2",
        dtype="float32",
        mixed_precision=precision,
        use_torch_compile=False,
        forward_only=frozen,
    )
    engine.use_dynamic_bsz = packed is not None
    engine.max_token_len_per_gpu = engine.infer_max_token_len_per_gpu = packed
    engine.micro_batch_size_per_gpu = engine.infer_micro_batch_size_per_gpu = 2
    config = TrainingWorkerConfig(
        model_type=model_type,
        model_config=HFModelConfig(
            path=str(path),
            load_tokenizer=False,
            use_remove_padding=False,
            use_fused_kernels=packed is not None and model_type == "language_model",
            fused_kernel_options={"impl_backend": "torch"},
            override_config={"attn_implementation": "sdpa"},
        ),
        engine_config=engine,
        optimizer_config=FSDPOptimizerConfig(
            lr=0.0, lr_warmup_steps=0, total_training_steps=10, clip_grad=1e9
        ),
        checkpoint_config=CheckpointConfig(),
    )
    made = kind(config=config)
    made.reset()
    return made


def moved(module: torch.nn.Module) -> None:
    """Move the policy away from the reference by the same amount on every rank."""
    for index, parameter in enumerate(module.parameters()):
        local = parameter.to_local() if hasattr(parameter, "to_local") else parameter
        local.data += 0.05 * torch.sin(torch.tensor(float(index)))


def only_surrogate(model_output, data, dp_group=None):
    """In place of PPO: any loss over all log-probs, so that FSDP2 sees the ordinary backward pass."""
    rows = response_part(model_output["log_probs"], data)
    return -0.01 * data["dp_size"] * torch.cat(rows).sum() / len(ROWS), {}


def by_hand(policy: PreTrainedModel, reference: PreTrainedModel, data: TensorDict) -> tuple[Tensor, Tensor]:
    """The loss and the mean divergence, a row at a time, from dense logits."""
    surrogate, divergences = torch.zeros(()), []
    for row, (prompt, kinds) in enumerate(ROWS):
        ids = data["input_ids"].unbind()[row]
        own, ref = (model(input_ids=ids[None]).logits[0] / TEMPERATURE for model in (policy, reference))
        chosen = own[:-1].log_softmax(-1).gather(1, ids[1:, None])[:, 0]
        surrogate = surrogate - 0.01 * chosen[prompt - 1 :].sum() / len(ROWS)
        at = [prompt + i - 1 for i, kind in enumerate(kinds) if kind == "i" and "s" in kinds]
        p, q = (logits[at, :TOKENIZER].log_softmax(-1) for logits in (own, ref.detach()))
        divergences.append((p.exp() * (p - q)).sum(-1))
    mean = torch.cat(divergences).mean()
    return surrogate + COEF * mean, mean


class Run:
    """Policy and reference of one checkpoint, wired as `ObservationKlMixin` wires them."""

    def __init__(self, path: Path, packed: int | None) -> None:
        self.policy = worker(PolicyWorker, path, frozen=False, packed=packed)
        self.reference = worker(ReferenceWorker, path, frozen=True, packed=packed)
        config = ObservationKl(
            coef=COEF, type=KlType.EXACT, scope=KlScope.IMAGE, token_chunk=2, vocabulary_chunk=16
        )
        self.states = self.reference.states = ReferenceStates()
        record_reference(self.reference.engine, RULE, self.states)
        head = copied_head(self.reference.engine.module, torch.float32, torch.device("cpu"))
        module = self.policy.engine.module
        self.policy.rule = RULE
        self.policy.exact = EngineExactTerm(config, module, self.states, head, TOKENIZER)
        self.policy.set_loss_fn(
            ObservationKlLoss(only_surrogate, config, RULE, aggregation="token-mean", exact=self.policy.exact)
        )
        self.gradients: dict[str, Tensor] = {}
        self._step, self.policy.engine.optimizer_step = self.policy.engine.optimizer_step, self._keep

    def _keep(self) -> float:
        named = self.policy.engine.module.named_parameters()
        self.gradients = {name: parameter.grad.full_tensor().clone() for name, parameter in named}
        return self._step()

    def update(self, part: TensorDict) -> dict[str, float]:
        """One step of the trainer: the reference's pass, then the update; its metrics."""
        data = part.copy()
        tu.assign_non_tensor(data, compute_loss=False)
        log_probs = self.reference.infer_batch(data)["log_probs"]
        kept = len(self.states)
        data["ref_log_prob"] = nested([row.clone() for row in response_part(log_probs, part)])
        tu.assign_non_tensor(data, mini_batch_size=len(ROWS), epochs=1, compute_loss=True)
        found = tu.get(self.policy.train_mini_batch(data), "metrics")
        numbers = {"rows_kept": kept, "rows_left": len(self.states)}
        return numbers | {name: _number(value) for name, value in found.items()}


def _number(value: Any) -> float:
    value = value[0] if isinstance(value, list) else value
    return float(value.aggregate() if isinstance(value, Metric) else value)


def compare(folder: Path, tied: bool, packed: int | None) -> dict[str, Any]:
    rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    if rank == 0:
        checkpoint(folder, tied)
    torch.distributed.barrier()
    run, whole = Run(folder, packed), batch()
    part = tu.chunk_tensordict(whole, size)[rank]
    tu.assign_non_tensor(part, temperature=TEMPERATURE, pad_token_id=0)
    before = run.update(part)
    moved(run.policy.engine.module)
    after = run.update(part)

    own = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="sdpa", dtype=torch.float32)
    ref = copy.deepcopy(own)
    moved(own)
    loss, mean = by_hand(own, ref, whole)
    loss.backward()
    expected = {name: parameter.grad for name, parameter in own.named_parameters()}
    return {
        "before": before,
        "after": after,
        "loss": loss.item(),
        "kl": mean.item(),
        "errors": {n: float((g - expected[n]).abs().max()) for n, g in run.gradients.items()},
        "largest": {n: float(g.abs().max()) for n, g in expected.items()},
    }


def main(folder: Path) -> None:
    initialize_global_process_group_ray()
    report = {
        name: compare(folder / name, name.endswith(" tied"), PACKED if name.startswith("packed") else None)
        for name in ("rows untied", "rows tied", "packed untied", "packed tied")
    }
    if torch.distributed.get_rank() == 0:
        print(json.dumps(report))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
