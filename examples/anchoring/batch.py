"""Build batches in the layout of verl's trainer, and run a model on them in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import Qwen2_5_VLForConditionalGeneration
from verl.utils import tensordict_utils as tu

from anchoring.reader_task import features
from docagent_rl.rollout.ledger import LedgerRow
from docagent_rl.training.tensors import jagged, tensor
from docagent_rl.training.workers.observation_kl import USE_REMOVE_PADDING

FEATURES = "features"


def nested(rows: Sequence[Tensor]) -> Tensor:
    """Join rows of different lengths into one jagged tensor."""
    return torch.nested.as_nested_tensor(list(rows), layout=torch.jagged)


def to_batch(rows: Sequence[LedgerRow], advantages: Sequence[float]) -> TensorDict:
    """Make a mini-batch as verl's trainer gives it to the policy's worker, but without log-probs.

    Args:
        rows: b rows of the token ledger.
        advantages: b numbers; each sampled token of a row gets the row's advantage.
    """
    prompts = [torch.tensor(row.prompt_ids) for row in rows]
    responses = [torch.tensor(row.response_ids) for row in rows]
    masks = [torch.tensor(row.response_mask) for row in rows]
    columns = {
        "prompts": prompts,
        "responses": responses,
        "response_mask": masks,
        "input_ids": [torch.cat(pair) for pair in zip(prompts, responses, strict=True)],
        "advantages": [value * mask.float() for value, mask in zip(advantages, masks, strict=True)],
    }
    data = TensorDict(
        {name: nested(column) for name, column in columns.items()}, batch_size=len(rows)
    )
    # rows without images have no features
    of_rows = [features(row) for row in rows]
    of_rows = [found for found in of_rows if found]
    names = of_rows[0].keys() if of_rows else ()
    joined = {name: torch.cat([found[name] for found in of_rows]) for name in names}

    tu.assign_non_tensor(
        data,
        dp_size=1,
        batch_num_tokens=sum(int(mask.sum()) for mask in masks),
        global_batch_size=len(rows),
        temperature=1.0,
        **{USE_REMOVE_PADDING: False, FEATURES: joined},
    )
    return data


class LocalEngine:
    """A model in this process, with the method of verl's engines that `losses.exact_term` wraps.

    Args:
        module: the model.
    """

    def __init__(self, module: Qwen2_5_VLForConditionalGeneration) -> None:
        self.module = module

    def hidden(self, data: TensorDict) -> Tensor:
        """Return the final hidden states (b, l, d), padded on the right."""
        model = self.module.model
        ids = pad_sequence(list(tensor(data, "input_ids").unbind()), batch_first=True)
        vision = tu.get_non_tensor_data(data, FEATURES, {})
        is_image = (ids == self.module.config.image_token_id).long()
        # (3, b, l): time, height and width. With causal attention, padding on the right needs no
        # mask. transformers annotates the parameters with narrower types of tensors.
        positions, _ = model.get_rope_index(ids, is_image, vision.get("image_grid_thw"))  # ty: ignore[invalid-argument-type]
        output = model(input_ids=ids, position_ids=positions, use_cache=False, **vision)
        return output.last_hidden_state

    def log_probs(self, data: TensorDict) -> Tensor:
        """Return the log-prob of the next token at each position, nested.

        The last position of a row has no next token; its number is meaningless.
        """
        hidden = self.hidden(data)
        ids = jagged(data, "input_ids")
        lengths = ids.offsets().diff().tolist()
        states = torch.cat([row[:length] for row, length in zip(hidden, lengths, strict=True)])
        log_probs = self.module.lm_head(states).float().log_softmax(-1)
        chosen = log_probs.gather(1, ids.values().roll(-1)[:, None])[:, 0]
        return torch.nested.nested_tensor_from_jagged(chosen, ids.offsets())

    def forward_step(self, micro_batch: TensorDict, loss_function: Any, forward_only: bool) -> Any:
        """Run one forward pass, and return the loss and the output in verl's layout.

        The loss is zero without a `loss_function`.
        """
        with torch.set_grad_enabled(not forward_only):
            output = {"log_probs": self.log_probs(micro_batch)}
        if loss_function is None:
            return torch.zeros(()), {"model_output": output, "metrics": {}}
        loss, metrics = loss_function(model_output=output, data=micro_batch)
        return loss, {"model_output": output, "metrics": metrics}
