"""Batches of a model's work, as large as memory holds."""

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from docagent_rl.base.errors import UserError

logger = logging.getLogger(__name__)
T = TypeVar("T")
R = TypeVar("R")


class Batches:
    """Runs work in batches of at most `size` items.

    Where the device's memory does not hold a batch, it and those that follow are halved. `named` is the
    model's setting, for messages.
    """

    def __init__(self, size: int, named: str) -> None:
        self.size, self._named = size, named

    def run(
        self, items: Sequence[T], weight: Callable[[T], int], work: Callable[[list[T]], Sequence[R]]
    ) -> list[R]:
        """Return the result of each item; those of about a weight share a batch, so that little is padded.

        Raises:
            UserError: memory does not hold one item.
        """
        order = sorted(range(len(items)), key=lambda number: -weight(items[number]))
        found: dict[int, R] = {}
        while len(found) < len(order):
            numbers = order[len(found) : len(found) + self.size]
            results = self._tried([items[number] for number in numbers], work)
            if results is not None:
                found |= dict(zip(numbers, results, strict=True))
        return [found[number] for number in range(len(items))]

    def _tried(self, batch: list[T], work: Callable[[list[T]], Sequence[R]]) -> Sequence[R] | None:
        """Return the results of a batch; None, with a smaller `size`, where memory does not hold it."""
        import torch

        try:
            return work(batch)
        except torch.OutOfMemoryError as error:
            if len(batch) == 1:
                raise UserError(
                    f"{self._named}: the device's memory does not hold one page at a time; lower max_pixels "
                    "or page_tokens of the model, or take another device"
                ) from error
        # outside of the handler, whose traceback holds the tensors
        self.size = len(batch) // 2
        torch.cuda.empty_cache()
        logger.warning("%s: memory does not hold %d at a time, so %d", self._named, len(batch), self.size)
        return None
