from __future__ import annotations

import pytest
from omegaconf import OmegaConf

from docagent_rl.training.settings import server_cache as cache

GIB = 1 << 30


@pytest.mark.parametrize(
    ("sessions", "image_tokens", "memory", "servers", "expected"),
    [
        (100, 19_000, 2000 * GIB, 8, 21.74),  # what the sessions show
        (100, 19_000, 1000 * GIB, 8, 12.5),  # a tenth of the memory, shared by eight
        (4, 1000, 1000 * GIB, 8, cache.LEAST_GIB),
        (100, 19_000, 64 * GIB, 8, cache.LEAST_GIB),
    ],
)
def test_sizes_by_hand(sessions, image_tokens, memory, servers, expected):
    assert cache.TOKEN_BYTES == 12_288
    found = cache.cache_gib(sessions=sessions, image_tokens=image_tokens, memory=memory, servers=servers)
    assert found == expected


def test_what_is_set_stays_and_text_needs_none(recipe):
    run = recipe("vrag_rl_qwen2_5_vl_7b", f"{cache.KEY}=1.5")
    cache.size_server_cache(run, 10_000)
    assert OmegaConf.select(run, cache.KEY) == 1.5
    run = recipe("mm_doc_r1_qwen3_8b", cpu=False)
    cache.size_server_cache(run, 0)
    assert OmegaConf.select(run, cache.KEY) is None
    run = recipe("alden_qwen2_5_vl_7b", "trainer.n_gpus_per_node=8", cpu=False)
    cache.size_server_cache(run, 19_000)
    assert OmegaConf.select(run, cache.KEY) >= cache.LEAST_GIB
