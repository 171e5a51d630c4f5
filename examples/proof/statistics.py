"""Compute confidence intervals over the documents of a seed, and over seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from docagent_rl.base.errors import UserError
from docagent_rl.lab.eval.report.statistics import DRAWS, ends, resampled
from learning.statistics import Interval, over_seeds

__all__ = ["Interval", "clustered_gain", "over_seeds"]


def clustered_gain(
    before: Sequence[float], after: Sequence[float], documents: Sequence[str], *, seed: int = 0
) -> Interval:
    """Return a bootstrap interval for the mean gain.

    Documents are resampled, because questions about the same document are not independent.

    Args:
        before: the score of each question before training.
        after: the scores after training, in the same order.
        documents: the document of each question.
        seed: the seed of the resamples.

    Raises:
        UserError: the three differ in length, or are empty.
    """
    if not len(before) == len(after) == len(documents) or not len(before):
        raise UserError(
            f"{len(before)} numbers before, {len(after)} after and {len(documents)} documents: "
            "give one of each for every question"
        )
    gains = np.asarray(after, dtype=float) - np.asarray(before, dtype=float)

    # for each document, the sum of its questions' gains and the number of its questions
    names, document_of = np.unique(np.asarray(documents), return_inverse=True)
    sums = np.bincount(document_of, gains, len(names))
    counts = np.bincount(document_of, minlength=len(names))

    draws = np.concatenate(list(resampled(np.stack([sums, counts], axis=1), DRAWS, seed)))
    low, high = ends(draws[:, 0] / draws[:, 1])
    return Interval(float(gains.mean()), float(low), float(high))
