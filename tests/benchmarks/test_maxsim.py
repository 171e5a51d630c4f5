from __future__ import annotations

import numpy as np
import pytest

from benchmarks.retrieval import maxsim
from docagent_rl.retrieval.vectors.bank import make_bank


@pytest.mark.slow
def test_ours_is_exact_where_padding_wins() -> None:
    pages, query = maxsim.document(12, 30, 6)
    lengths = [len(page) for page in pages]
    assert min(lengths) >= 12
    assert max(lengths) <= 48
    bank = make_bank(pages, maxsim.DIM)
    want = maxsim.exact(bank, query)
    found = {name: call() for name, call in maxsim.scorers(pages, bank, query).items()}
    for name in ("ours (numkong)", "ours (torch)", "sentence-transformers maxsim"):
        np.testing.assert_allclose(found[name], want, atol=1e-5)
    assert np.abs(found["colpali-engine score_multi_vector"] - want).max() > 0.1
