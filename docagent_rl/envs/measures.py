"""Numbers of an episode that mean nothing for some questions."""

from __future__ import annotations

from collections.abc import Mapping


def measured(numbers: Mapping[str, float | None]) -> dict[str, float]:
    """The numbers that there are: `None` is left out, so that no average takes it for 0.

    A recall, precision or NDCG of a question without gold pages is such a number.
    """
    return {name: value for name, value in numbers.items() if value is not None}
