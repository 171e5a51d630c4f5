"""The scores of `vectors.maxsim` on a GPU, which holds the vectors of the index."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from docagent_rl.base.errors import UserError
from docagent_rl.retrieval.encoders.local import find_device
from docagent_rl.retrieval.vectors.bank import Bank
from docagent_rl.retrieval.vectors.maxsim import checked_query

_ROWS = 1 << 19
"""Vectors multiplied at a time: in float32 they take 256 MB at 128 dimensions."""


@dataclass(frozen=True, slots=True)
class _Held:
    vectors: torch.Tensor
    lengths: torch.Tensor


class DeviceBank:
    """The vectors of a bank in the memory of a device. Scoring changes nothing: any thread may.

    Args:
        bank: the vectors.
        device: a device of torch, by its name.
        named: the setting that names it, for messages.
    """

    def __init__(self, bank: Bank, device: str, named: str) -> None:
        self._bank, self._device, self._named = bank, device, named
        self._lock = threading.Lock()
        self._held: _Held | None = None

    def load(self) -> _Held:
        """Bring the vectors to the device, once; the first scores do it otherwise.

        Raises:
            UserError: there is no such device, or its memory does not hold them.
        """
        with self._lock:
            if self._held is None:
                self._held = self._load(find_device(self._device, self._named))
            return self._held

    def _load(self, device: torch.device) -> _Held:
        bank = self._bank
        try:
            return _Held(bank.vectors.to(device), torch.from_numpy(np.diff(bank.offsets)).to(device))
        except torch.OutOfMemoryError as error:
            gib = bank.vectors.nbytes / 2**30
            raise UserError(
                f"{self._named}={self._device}: it has no room for {gib:.1f} GiB of vectors: set it to null, "
                "or take an engine"
            ) from error

    @torch.inference_mode()
    def scores(self, queries: Sequence[np.ndarray], first: int = 0, last: int | None = None) -> np.ndarray:
        """Return the scores of `maxsim.page_scores`, up to the order in which products are summed."""
        bank, held = self._bank, self.load()
        last = bank.num_pages if last is None else last
        rows = [checked_query(query, bank).float() for query in queries]
        scores = torch.empty(len(queries), last - first, device=held.vectors.device)
        columns = torch.cat(rows).T.to(held.vectors.device)
        for start, end in bank.blocks(first, last, _ROWS):
            low, high = int(bank.offsets[start]), int(bank.offsets[end])
            products = held.vectors[low:high].float() @ columns
            # of a page without vectors -inf, which is `NO_SCORE`
            maxima = torch.segment_reduce(products, "max", lengths=held.lengths[start:end])  # ty: ignore[missing-attribute]
            parts = maxima.split([len(query) for query in rows], dim=1)
            scores[:, start - first : end - first] = torch.stack([part.sum(1) for part in parts])
        return scores.cpu().numpy()
