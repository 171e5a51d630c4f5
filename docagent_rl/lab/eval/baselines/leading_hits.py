"""The number of pages to keep of a ranking, by a mixture of Gaussians over its scores."""

from collections.abc import Sequence

import numpy as np

from docagent_rl.retrieval import Hit

_COMPONENTS = 2
_SEED = 0


def leading_hits(hits: Sequence[Hit], *, least: int, most: int) -> list[Hit]:
    """Return the hits that belong to the better of two groups of scores (ViDoRAG).

    A mixture of two Gaussians is fitted to the scores of the best `2 * most` hits; the group with
    the highest score is kept, at most `most` of it. If it has fewer than `least` hits, the best of
    the other group follow. Numbers and seed are those of the released code.
    """
    best = list(hits[: 2 * most])
    scores = np.array([hit.score for hit in best], dtype=np.float64)
    if len(best) < _COMPONENTS or scores.max() == scores.min():
        return best[:most]
    groups = _groups(scores)
    leading = groups[int(scores.argmax())]
    kept = [hit for hit, group in zip(best, groups, strict=True) if group == leading][:most]
    others = [hit for hit, group in zip(best, groups, strict=True) if group != leading]
    return kept + others[: max(0, least - len(kept))]


def _groups(scores: np.ndarray) -> list[int]:
    """Return the component of each score; `scores` has shape `(n,)`."""
    # imported here, since scikit-learn takes a second to import
    from sklearn.mixture import GaussianMixture

    mixture = GaussianMixture(n_components=_COMPONENTS, n_init=1, random_state=_SEED)
    return mixture.fit_predict(scores.reshape(-1, 1)).tolist()
