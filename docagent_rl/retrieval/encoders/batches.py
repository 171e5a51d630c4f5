"""Batching for a model, with smaller batches if memory runs out, and preparation in advance."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from typing import Any, Generic, TypeVar

from docagent_rl.base.errors import UserError

logger = logging.getLogger(__name__)
T = TypeVar("T")
P = TypeVar("P")
R = TypeVar("R")
AHEAD = 2
"""Number of batches that are prepared while the model works on another one."""


class Batches:
    """A runner of work in batches of at most `size` items.

    If the device runs out of memory, the batch and later ones are halved. `named` is the model's
    setting, for messages.
    """

    def __init__(self, size: int, named: str) -> None:
        self.size = size
        self._named = named

    def run(
        self, items: Sequence[T], weight: Callable[[T], int], work: Callable[[list[T]], Sequence[R]]
    ) -> list[R]:
        """Return the result of each item.

        Items of similar weight share a batch, to keep padding small.

        Raises:
            UserError: Memory does not suffice for one item.
        """
        group: _Group[T, R] = _Group(items)
        for numbers in self._divided(items, weight):
            group.take(numbers, self._worked(group.chosen(numbers), work))
        return group.results()

    def stream(
        self,
        groups: Iterable[Sequence[T]],
        weight: Callable[[T], int],
        prepare: Callable[[list[T]], P],
        work: Callable[[list[T], P], Sequence[R]],
    ) -> Generator[list[R]]:
        """Yield the results of the items of each group, as `run` returns them.

        A group of n items takes n / `size` batches, rounded up. While `work` runs in the caller's
        thread, the next `AHEAD` batches, of this group or the next, are prepared in other threads.
        If the caller stops, preparations that have not begun are cancelled.

        Raises:
            UserError: Memory does not suffice for one item.
        """
        parts = self._parts(groups, weight)
        waiting: deque[tuple[_Group[T, R], list[int], list[T], Future[P]]] = deque()

        def fill() -> None:
            for group, numbers in islice(parts, AHEAD - len(waiting)):
                batch = group.chosen(numbers)
                waiting.append((group, numbers, batch, self._threads.submit(prepare, batch)))

        try:
            fill()
            while waiting:
                group, numbers, batch, ready = waiting.popleft()
                prepared = ready.result()
                fill()
                work_on = partial(_work_on, batch, prepared, prepare=prepare, work=work)
                group.take(numbers, self._worked(batch, work_on))
                if group.whole:
                    yield group.results()
        finally:
            for *_, ready in waiting:
                ready.cancel()

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(AHEAD, "preparation", initializer=_take_one_thread)

    def _parts(
        self, groups: Iterable[Sequence[T]], weight: Callable[[T], int]
    ) -> Iterator[tuple[_Group[T, Any], list[int]]]:
        for items in groups:
            group: _Group[T, Any] = _Group(items)
            yield from ((group, numbers) for numbers in self._divided(items, weight))
            if not items:
                yield group, []

    def _divided(self, items: Sequence[T], weight: Callable[[T], int]) -> Iterator[list[int]]:
        """Yield the numbers of the items of each batch; `size` may decrease meanwhile."""
        order = sorted(range(len(items)), key=lambda number: -weight(items[number]))
        while order:
            yield (numbers := order[: self.size])
            order = order[len(numbers) :]

    def _worked(self, batch: list[T], work: Callable[[list[T]], Sequence[R]]) -> list[R]:
        """Return the results of a batch, which is split if memory does not suffice."""
        if len(batch) <= self.size and (results := self._tried(batch, work)) is not None:
            return list(results)
        found: list[R] = []
        while len(found) < len(batch):
            found += self._worked(batch[len(found) : len(found) + self.size], work)
        return found

    def _tried(self, batch: list[T], work: Callable[[list[T]], Sequence[R]]) -> Sequence[R] | None:
        """Return the results of a batch; if memory runs out, reduce `size` and return None."""
        import torch

        try:
            return work(batch)
        except torch.OutOfMemoryError as error:
            if len(batch) == 1:
                raise UserError(
                    f"{self._named}: the device's memory does not suffice for a single page; lower "
                    "max_pixels or page_tokens of the model, or use another device"
                ) from error
        # outside of the handler, since its traceback keeps the tensors alive
        self.size = max(1, min(self.size, len(batch) // 2))
        torch.cuda.empty_cache()
        logger.warning(
            "%s: memory does not suffice for batches of %d; using %d",
            self._named,
            len(batch),
            self.size,
        )
        return None


@dataclass(slots=True)
class _Group(Generic[T, R]):
    """Items whose results are returned together."""

    items: Sequence[T]
    found: dict[int, R] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        return len(self.found) == len(self.items)

    def chosen(self, numbers: list[int]) -> list[T]:
        return [self.items[number] for number in numbers]

    def take(self, numbers: list[int], results: list[R]) -> None:
        self.found |= dict(zip(numbers, results, strict=True))

    def results(self) -> list[R]:
        return [self.found[number] for number in range(len(self.items))]


def _work_on(
    whole: list[T],
    prepared: P,
    batch: list[T],
    *,
    prepare: Callable[[list[T]], P],
    work: Callable[[list[T], P], Sequence[R]],
) -> Sequence[R]:
    """Work on a prepared batch, or on a part of it, which is prepared again."""
    return work(batch, prepared if batch is whole else prepare(batch))


def _take_one_thread() -> None:
    """Limit torch to one thread in this thread."""
    import torch

    torch.set_num_threads(1)
