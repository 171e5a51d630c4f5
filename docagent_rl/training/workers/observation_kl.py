"""The observation term of the dual-path KL, added to verl's PPO loss (ALDEN, arXiv 2510.25668).

    loss = verl's loss (surrogate + beta_gen * KL over sampled tokens) + beta_obs * KL over
    observation tokens

The paper prints the two KL terms inside an objective that it maximises; the sign here is the one
that it means. Each term is a mean over its own tokens, according to `actor.loss_agg_mode`; for
memory see `docs/architecture.md`.
"""

import hashlib
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import torch
from tensordict import TensorDict
from torch import Tensor
from verl.trainer.ppo.core_algos import agg_loss
from verl.utils import tensordict_utils as tu
from verl.utils.metric import AggregationType, Metric
from verl.workers.utils.padding import no_padding_2_padding

from docagent_rl.losses.config import KlType, ObservationKl
from docagent_rl.losses.estimators import clamped, hidden_drift, sampled_kl
from docagent_rl.losses.exact_kl import Head, exact_kl
from docagent_rl.losses.model_parts import HasBase, HasHead, HiddenTap, gathered_head
from docagent_rl.losses.positions import ObservationRule, TokenRows, predicting_states
from docagent_rl.training.tensors import count, pad, read_rows, response_part, tensor
from docagent_rl.training.workers.turn_loss import TURNS, arranged_by_turn

Loss = tuple[Tensor, dict[str, Any]]
USE_REMOVE_PADDING = "use_remove_padding"


OBSERVATION_TOKENS, OBSERVATION_ROWS, OBSERVATION_IMAGES = (
    f"observation_{name}" for name in ("tokens", "rows", "images")
)
"""Fields of a micro-batch: the divisors of means over its whole mini-batch, on all workers.

Only rows with at least one such token are counted. verl only counts sampled tokens.
"""


def observation_totals(rows: TokenRows, rule: ObservationRule) -> dict[str, int]:
    """Count one worker's part of a mini-batch for each field."""
    mask = rule.observations(rows)
    numbers = mask.sum(), mask.any(1).sum(), rule.images(rows).sum()
    names = OBSERVATION_TOKENS, OBSERVATION_ROWS, OBSERVATION_IMAGES
    return {name: int(number) for name, number in zip(names, numbers, strict=True)}


@dataclass(frozen=True, eq=False)
class ExactValues:
    """The exact divergence (n,) in nats, with gradient, at n positions in row-major order.

    `distance` is the relative L2 distance of the hidden states from the reference's, `cosine` their
    cosine similarity.
    """

    kl: Tensor
    distance: Tensor
    cosine: Tensor


ExactTerm = Callable[[TensorDict, TokenRows, Tensor], ExactValues]
"""Computes the divergence at a mask (b, t) of response tokens; called in every micro-batch."""


class ObservationKlLoss:
    """A loss for verl's `set_loss_fn`: `base` plus `coef` times the divergence on observation
    tokens.

    `aggregation` and `scale_factor` are the actor's `loss_agg_mode` and `loss_scale_factor`. With
    `by_turn`, the divergence is summed over the means of all turns, and divided by the number of
    turns that are trained, whether or not an observation follows them (ALDEN, Eq. 6). `exact` is
    required for `KlType.EXACT`, and unused otherwise.
    """

    def __init__(
        self,
        base: Callable[..., Loss],
        config: ObservationKl,
        rule: ObservationRule,
        *,
        aggregation: str,
        scale_factor: int | None = None,
        by_turn: bool = False,
        exact: ExactTerm | None = None,
    ) -> None:
        if (config.type is KlType.EXACT) != (exact is not None):
            raise ValueError(f"type {config.type.value} with exact={exact}")
        self._base = base
        self._config = config
        self._rule = rule
        self._exact = exact
        self._aggregation = aggregation
        self._scale_factor = scale_factor
        self._by_turn = by_turn

    def __call__(
        self, model_output: dict[str, Any], data: TensorDict, dp_group: Any = None
    ) -> Loss:
        """Return the loss of a micro-batch and its metrics, in verl's layout.

        The metric `kl_observation` is what `coef` multiplies. The others are means over tokens of
        the mini-batch: `kl_generated` (k3) over trained tokens, `kl_visual` (the term's estimator)
        over image placeholders, and over observation tokens `kl_clamped` (the share of positions
        where k3 has no gradient) and, only for the exact term, `observation_drift_l2` and
        `observation_drift_cosine` (hidden states compared with the reference's).
        """
        # verl's part comes first: see `losses.model_parts.gathered_head`
        loss, metrics = self._base(model_output=model_output, data=data, dp_group=dp_group)
        rows = read_rows(data)
        tokens = count(data, OBSERVATION_TOKENS)
        workers = count(data, "dp_size")
        log_probs = no_padding_2_padding(model_output["log_probs"], data)
        ref_log_probs = pad(tensor(data, "ref_log_prob"))
        mask = self._rule.observations(rows)
        if self._exact is None:
            kl = sampled_kl(log_probs, ref_log_probs, self._config.type)
            drift = {}
        else:
            values = self._exact(data, rows, mask)
            kl = _scatter(values.kl, mask)
            drift = {"l2": _scatter(values.distance, mask), "cosine": _scatter(values.cosine, mask)}
        term = self._term(kl, mask, rows, data)
        log_probs = log_probs.detach()
        generated = sampled_kl(log_probs, ref_log_probs, KlType.K3)
        cut = clamped(log_probs, ref_log_probs)
        images = mask & self._rule.images(rows)
        metrics |= {
            "kl_observation": Metric(AggregationType.SUM, term),
            "kl_generated": _mean(
                generated, rows.trained, count(data, "batch_num_tokens"), workers
            ),
            "kl_visual": _mean(kl.detach(), images, count(data, OBSERVATION_IMAGES), workers),
            "kl_clamped": _mean(cut, mask, tokens, workers),
        }
        for name, values in drift.items():
            metrics[f"observation_drift_{name}"] = _mean(values, mask, tokens, workers)
        return loss + self._config.coef * term, metrics

    def _term(self, kl: Tensor, mask: Tensor, rows: TokenRows, data: TensorDict) -> Tensor:
        """Return this micro-batch's part of the mean over observation tokens, scaled like verl's
        losses.
        """
        if self._by_turn:
            turns = arranged_by_turn(data)
            # as rows without a trained token, such turns do not count
            trained = turns.arranged(rows.trained).any(dim=1, keepdim=True)
            kl, mask = turns.arranged(kl), turns.arranged(mask) & trained
        rows_counted = count(data, TURNS if self._by_turn else OBSERVATION_ROWS)
        return agg_loss(
            loss_mat=kl,
            loss_mask=mask,
            loss_agg_mode=self._aggregation,
            dp_size=count(data, "dp_size"),
            batch_num_tokens=max(count(data, OBSERVATION_TOKENS), 1),
            global_batch_size=max(rows_counted, 1),
            loss_scale_factor=self._scale_factor,
        )


def _scatter(values: Tensor, mask: Tensor) -> Tensor:
    return torch.zeros(mask.shape, dtype=values.dtype, device=values.device).masked_scatter(
        mask, values
    )


def _mean(values: Tensor, mask: Tensor, total: int, workers: int) -> Metric:
    """Return this micro-batch's part of a mean; verl sums micro-batches and averages workers."""
    part = (values * mask).sum() * workers / max(total, 1)
    return Metric(AggregationType.SUM, part)


@dataclass
class ReferenceStates:
    """The reference's hidden states by row.

    A row is identified by its tokens and the reference's log-probs of them. The log-probs also
    depend on the images, and are part of the row in the update, so that the order of rows does not
    matter.
    """

    _rows: dict[bytes, Tensor] = field(default_factory=dict)

    def put(self, keys: Sequence[bytes], hidden: Sequence[Tensor]) -> None:
        """Store the (n_i, d) states of each row in host memory."""
        self._rows.update((key, states.cpu()) for key, states in zip(keys, hidden, strict=True))

    def get(self, keys: Sequence[bytes], counts: Sequence[int], device: torch.device) -> Tensor:
        """Return the first `counts[i]` states of each row i, concatenated: (n, d) on the device.

        Raises:
            RuntimeError: a row was not in the reference's pass in this worker.
        """
        missing = sum(key not in self._rows for key in keys)
        if missing:
            raise RuntimeError(
                f"{missing} of {len(keys)} rows have no hidden states of the reference in this "
                "worker: its pass and the update must distribute a batch over the workers in the "
                "same way (use the same parallel sizes for both)"
            )
        chosen = [self._rows[key][:number] for key, number in zip(keys, counts, strict=True)]
        return torch.cat(chosen).to(device)

    def clear(self) -> None:
        """Forget all rows."""
        self._rows.clear()

    def __len__(self) -> int:
        return len(self._rows)


def row_keys(data: TensorDict, ref_log_probs: Sequence[Tensor]) -> list[bytes]:
    """Return a digest of each row's tokens and of the reference's log-probs over its response."""
    pairs = zip(tensor(data, "input_ids").unbind(), ref_log_probs, strict=True)
    return [
        hashlib.blake2b(_bytes(ids.long()) + _bytes(log_probs.float()), digest_size=16).digest()
        for ids, log_probs in pairs
    ]


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().numpy().tobytes()


def sample_reference(engine: Any, rule: ObservationRule, states: ReferenceStates) -> None:
    """Make every pass of the reference's `FSDPEngineWithLMHead` store hidden states in `states`."""
    tap = HiddenTap(engine.module, training_only=False)
    forward_step = engine.forward_step

    def recording(micro_batch: TensorDict, loss_function: Any, forward_only: bool) -> Any:
        loss, output = forward_step(
            micro_batch, loss_function=loss_function, forward_only=forward_only
        )
        hidden = tap.take()
        rows = read_rows(micro_batch, hidden.device)
        mask = rule.observations(rows)
        packed = tu.get_non_tensor_data(micro_batch, USE_REMOVE_PADDING, True)
        chosen = predicting_states(hidden, mask, rows, packed=packed).detach()
        log_probs = response_part(output["model_output"]["log_probs"], micro_batch)
        states.put(row_keys(micro_batch, log_probs), chosen.split(mask.sum(1).tolist()))
        return loss, output

    engine.forward_step = recording


class LanguageModel(HasBase, HasHead, Protocol):
    """The parts of the policy's model that are used here."""


class EngineExactTerm:
    """The exact divergence of the policy, which FSDP2 shards, from the reference's last pass.

    `ref_head` is in host memory. `vocabulary` is the number of entries of the tokenizer; further
    rows pad the head and are never sampled.
    """

    def __init__(
        self,
        config: ObservationKl,
        model: LanguageModel,
        states: ReferenceStates,
        ref_head: Head,
        vocabulary: int,
    ) -> None:
        self._config = config
        self._model = model
        self._states = states
        self._ref_head = ref_head
        self._vocabulary = vocabulary
        self._resident: Head | None = None
        self._tap = HiddenTap(model, training_only=True)

    @contextmanager
    def update(self, device: torch.device) -> Generator[None]:
        """Keep the reference's head on the device for the block, then drop the reference's
        states.
        """
        bias = self._ref_head.bias
        self._resident = Head(
            self._ref_head.weight.to(device), None if bias is None else bias.to(device)
        )
        try:
            yield
        finally:
            self._resident = None
            self._states.clear()

    def __call__(self, data: TensorDict, rows: TokenRows, mask: Tensor) -> ExactValues:
        """Compute the divergence (`ExactTerm`).

        Raises:
            RuntimeError: it is called outside of `update`, or a row has no reference states.
        """
        if self._resident is None:
            raise RuntimeError("the exact KL can only be computed within `update`")
        head = gathered_head(self._model)
        packed = tu.get_non_tensor_data(data, USE_REMOVE_PADDING, True)
        hidden = predicting_states(self._tap.take(), mask, rows, packed=packed)
        keys = row_keys(data, tensor(data, "ref_log_prob").unbind())
        # a row that was rejected after the reference's pass needs no states
        ref_hidden = self._states.get(keys, mask.sum(dim=1).tolist(), hidden.device)
        temperature = cast("float | Tensor", data["temperature"])
        if isinstance(temperature, Tensor) and temperature.ndim:  # one temperature per row
            temperature = temperature.to(mask.device)[mask.nonzero(as_tuple=True)[0]]
        else:
            temperature = float(temperature)
        kl = exact_kl(
            hidden,
            head,
            ref_hidden,
            self._resident,
            temperature=temperature,
            vocabulary=min(self._vocabulary, head.weight.shape[0]),
            token_chunk=self._config.token_chunk,
            vocabulary_chunk=self._config.vocabulary_chunk,
        )
        return ExactValues(kl, *hidden_drift(hidden, ref_hidden))
