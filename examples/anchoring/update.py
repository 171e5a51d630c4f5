"""Update the policy with the loss of a run, and measure how far it has moved."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import Qwen2_5_VLForConditionalGeneration
from verl.utils import tensordict_utils as tu
from verl.workers.config import FSDPActorConfig
from verl.workers.utils.losses import ppo_loss

from anchoring.batch import LocalEngine, nested, to_batch
from anchoring.results import AnchoringSettings, Point
from docagent_rl.losses.config import KlPlace, KlScope, KlType, ObservationKl
from docagent_rl.losses.estimators import hidden_drift, sampled_kl
from docagent_rl.losses.exact_kl import Head, exact_kl
from docagent_rl.losses.model_parts import copied_head
from docagent_rl.losses.positions import ObservationRule, predicting_states
from docagent_rl.training.tensors import read_rows, response_part
from docagent_rl.training.workers.observation_kl import (
    EngineExactTerm,
    ObservationKlLoss,
    ReferenceStates,
    observation_totals,
    sample_reference,
)

if TYPE_CHECKING:
    from docagent_rl.rollout.ledger import LedgerRow

AGGREGATION = "seq-mean-token-mean"
"""How ALDEN averages the loss over tokens and rows."""
CPU = torch.device("cpu")


class Updater:
    """Policy-gradient steps with verl's `ppo_loss` and, with a term, `ObservationKlLoss` around it.

    Args:
        policy: the model, which is trained in place.
        reference: the reference, whose weights do not change.
        term: the observation KL; None leaves verl's loss as it is.
        settings: the learning rate, and the coefficient of verl's own KL over sampled tokens.
        vocabulary: the number of entries of the tokenizer.
    """

    def __init__(
        self,
        policy: Qwen2_5_VLForConditionalGeneration,
        reference: Qwen2_5_VLForConditionalGeneration,
        term: ObservationKl | None,
        settings: AnchoringSettings,
        vocabulary: int,
    ) -> None:
        self._policy = LocalEngine(policy)
        self._reference = LocalEngine(reference)
        self._optimizer = torch.optim.AdamW(
            policy.parameters(), lr=settings.learning_rate, betas=(0.9, 0.999), weight_decay=0.0
        )
        self._rule: ObservationRule | None = None
        self._exact: EngineExactTerm | None = None
        self._loss: Any = partial(ppo_loss, config=_actor(settings))
        if term is not None:
            self._rule = ObservationRule(term.scope, term.at, policy.config.image_token_id)
            if term.type is KlType.EXACT:
                states = ReferenceStates()
                sample_reference(self._reference, self._rule, states)
                head = copied_head(reference, torch.float32, CPU)
                self._exact = EngineExactTerm(term, policy, states, head, vocabulary)
            self._loss = ObservationKlLoss(
                self._loss, term, self._rule, aggregation=AGGREGATION, exact=self._exact
            )

    def update(self, rows: Sequence[LedgerRow], advantages: Sequence[float]) -> dict[str, Any]:
        """Take one step on trajectories of the current policy.

        Args:
            rows: b rows.
            advantages: b numbers, one for each row.

        Returns:
            verl's metrics and those of the term.
        """
        data = to_batch(rows, advantages)
        _, output = self._reference.forward_step(data, None, forward_only=True)
        data["ref_log_prob"] = _responses(output["model_output"]["log_probs"], data)
        if self._rule is not None:
            tu.assign_non_tensor(data, **observation_totals(read_rows(data), self._rule))
        with self._exact.update(CPU) if self._exact else nullcontext():
            loss, output = self._policy.forward_step(data, self._on_policy, forward_only=False)
            self._optimizer.zero_grad(set_to_none=True)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(self._policy.module.parameters(), 1.0)
        self._optimizer.step()
        return output["metrics"]

    def _on_policy(self, model_output: dict[str, Any], data: Any) -> Any:
        # each batch gets one step, so the policy that is trained is the one that sampled
        data["old_log_probs"] = _responses(model_output["log_probs"].detach(), data)
        return self._loss(model_output=model_output, data=data)


class Probe:
    """Fixed rows with the reference's hidden states, on which policies are measured.

    Args:
        reference: the reference.
        rows: rows of its trajectories.
    """

    def __init__(
        self, reference: Qwen2_5_VLForConditionalGeneration, rows: Sequence[LedgerRow]
    ) -> None:
        self._data = to_batch(rows, [0.0] * len(rows))
        self._rows = read_rows(self._data)
        image = reference.config.image_token_id
        self._images = ObservationRule(KlScope.IMAGE, KlPlace.STATE, image).observations(self._rows)
        self._labels = ObservationRule(KlScope.IMAGE, KlPlace.LABEL, image).observations(self._rows)
        self._head = copied_head(reference, torch.float32, CPU)
        self._hidden = self._read(reference)

    @torch.no_grad()
    def measure(self, policy: Qwen2_5_VLForConditionalGeneration) -> Point:
        """Compare a policy with the reference; the fields `update` and `reward` are left at 0."""
        head = Head(policy.lm_head.weight)
        own = self._read(policy)
        kl = [
            exact_kl(states, head, ref, self._head).mean().item()
            for states, ref in zip(own, self._hidden, strict=True)
        ]
        sampled, images, labels = range(3)
        distance, cosine = hidden_drift(own[images], self._hidden[images])
        tokens = self._rows.responses[self._labels]
        k3 = sampled_kl(
            _log_probs(own[labels], head, tokens),
            _log_probs(self._hidden[labels], self._head, tokens),
            KlType.K3,
        )
        return Point(
            update=0,
            response_kl=kl[sampled],
            distance=distance.mean().item(),
            cosine=cosine.mean().item(),
            visual_kl=kl[images],
            visual_k3=k3.mean().item(),
            reward=0.0,
        )

    @torch.no_grad()
    def _read(self, model: Qwen2_5_VLForConditionalGeneration) -> list[Tensor]:
        """Return three tensors of hidden states, (n, d) each.

        They are the states that predict sampled tokens, the states at image placeholders, and the
        states that predict image placeholders.
        """
        hidden = LocalEngine(model).hidden(self._data)
        rows = self._rows
        masks: list[Tensor] = [rows.sampled, self._images, self._labels]
        return [predicting_states(hidden, mask, rows, packed=False) for mask in masks]


def _actor(settings: AnchoringSettings) -> FSDPActorConfig:
    return FSDPActorConfig(
        strategy="fsdp2",
        rollout_n=1,
        ppo_mini_batch_size=settings.trajectories,
        ppo_micro_batch_size_per_gpu=settings.trajectories,
        use_kl_loss=True,
        kl_loss_coef=settings.beta_gen,
        kl_loss_type="low_var_kl",
        loss_agg_mode=AGGREGATION,
    )


def _responses(log_probs: Tensor, data: Any) -> Tensor:
    return nested([row.clone() for row in response_part(log_probs, data)])


def _log_probs(hidden: Tensor, head: Head, tokens: Tensor) -> Tensor:
    return (hidden @ head.weight.t()).log_softmax(-1).gather(1, tokens[:, None])[:, 0]
