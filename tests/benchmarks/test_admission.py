"""With a real vLLM whose KV cache is too small for all trajectories, none is computed twice."""

import asyncio

import pytest

from benchmarks.admission import compare

pytestmark = pytest.mark.slow


def test_admitted_trajectories_are_not_prefilled_again():
    free, admitted = asyncio.run(compare(trajectories=24, room=3))
    assert free.ratio > 1.5  # the cache is too small for all at once
    assert admitted.ratio <= 1.1
    assert 1 < admitted.at_once < 24
