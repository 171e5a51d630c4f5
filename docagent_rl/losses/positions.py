"""Select the positions of a batch that count, and the hidden states that predict their tokens.

A row is a prompt followed by a response; (b, t) tensors cover the response and are padded on the
right. `log_probs[r, j]` belongs to response token j and is computed from the hidden state before
it, which for j = 0 is that of the prompt's last token.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from docagent_rl.losses.config import KlPlace, KlScope


@dataclass(frozen=True, eq=False)
class TokenRows:
    """The tokens of a batch: ids of `responses` (b, t), and lengths (b,) of prompts and responses.

    `sampled` (b, t) is true on tokens that the policy sampled, `trained` (b, t) on the sampled
    tokens that were not rejected.
    """

    responses: Tensor
    sampled: Tensor
    trained: Tensor
    prompt_lengths: Tensor
    response_lengths: Tensor

    @property
    def real(self) -> Tensor:
        """Booleans (b, t), false on padding."""
        columns = torch.arange(self.responses.shape[1], device=self.responses.device)
        return columns < self.response_lengths[:, None]

    def to(self, device: torch.device) -> TokenRows:
        """Return the rows on another device."""
        return TokenRows(
            **{field.name: getattr(self, field.name).to(device) for field in fields(self)}
        )


@dataclass(frozen=True)
class ObservationRule:
    """The choice of predictions that the observation term covers.

    `at` selects the distribution before a token or the one after it; `image_token_id` is None for a
    model without images.
    """

    scope: KlScope
    at: KlPlace
    image_token_id: int | None

    def observations(self, rows: TokenRows) -> Tensor:
        """Return (b, t) booleans, an index into `log_probs`: response tokens whose predictions
        count.

        Rows without a trained token do not count: they are masked out of the loss, pad the batch,
        or were rejected as a whole. With `KlPlace.STATE` the mask is shifted by one token; it
        excludes states that predict nothing, and those that predict a sampled token, which is in
        verl's term.
        """
        mask = rows.real & ~rows.sampled & rows.trained.any(dim=1, keepdim=True)
        if self.scope is KlScope.IMAGE:
            mask &= rows.responses == self.image_token_id
        if self.at is not KlPlace.STATE:
            return mask
        shifted = torch.zeros_like(mask)
        shifted[:, 1:] = mask[:, :-1]
        return shifted & rows.real & ~rows.sampled

    def images(self, rows: TokenRows) -> Tensor:
        """Return (b, t) booleans: the part of `observations` that comes from image placeholders."""
        if self.image_token_id is None:
            return torch.zeros_like(rows.sampled)
        return replace(self, scope=KlScope.IMAGE).observations(rows)


def predicting_states(hidden: Tensor, mask: Tensor, rows: TokenRows, *, packed: bool) -> Tensor:
    """Return the hidden states (n, d) that predict the n marked tokens, in row-major order.

    If `packed`, `hidden` is (1, l, d) with all `rows` concatenated and possibly padding at the end;
    otherwise it is (b, l, d), padded on the right. `mask` is (b, t) booleans over response tokens.
    Differentiable.
    """
    row, column = mask.nonzero(as_tuple=True)
    position = rows.prompt_lengths[row] + column - 1
    if not packed:
        return hidden[row, position]
    lengths = rows.prompt_lengths + rows.response_lengths
    starts = lengths.cumsum(0) - lengths
    return hidden[0, starts[row] + position]
