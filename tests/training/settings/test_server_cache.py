from __future__ import annotations

import pytest
from omegaconf import OmegaConf

from docagent_rl.training.settings.server_cache import (
    KEY,
    LEAST_GIB,
    TOKEN_BYTES,
    cache_gib,
    size_server_cache,
)

GIB = 1 << 30


@pytest.mark.parametrize(
    ("sessions", "image_tokens", "memory", "servers", "expected"),
    [
        (100, 19_000, 2000 * GIB, 8, 21.74),  # what the sessions show
        (100, 19_000, 1000 * GIB, 8, 12.5),  # a tenth of the memory, shared by eight
        (4, 1000, 1000 * GIB, 8, LEAST_GIB),
        (100, 19_000, 64 * GIB, 8, LEAST_GIB),
    ],
)
def test_sizes_by_hand(sessions, image_tokens, memory, servers, expected):
    assert TOKEN_BYTES == 12_288
    found = cache_gib(sessions=sessions, image_tokens=image_tokens, memory=memory, servers=servers)
    assert found == expected


def test_what_is_set_stays_and_text_needs_none(recipe):
    run = recipe("vrag_rl_qwen2_5_vl_7b", f"{KEY}=1.5")
    size_server_cache(run, 10_000)
    assert OmegaConf.select(run, KEY) == 1.5
    run = recipe("mm_doc_r1_qwen3_8b", cpu=False)
    size_server_cache(run, 0)
    assert OmegaConf.select(run, KEY) is None
    run = recipe("alden_qwen2_5_vl_7b", "trainer.n_gpus_per_node=8", cpu=False)
    size_server_cache(run, 19_000)
    assert OmegaConf.select(run, KEY) >= LEAST_GIB
