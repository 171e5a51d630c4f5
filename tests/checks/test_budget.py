from __future__ import annotations

from dataclasses import replace

import pytest

from docagent_rl.checks.budget import (
    AGENT_PROCESS,
    CONTEXT,
    GIB,
    PROCESS,
    SEARCH_PROCESS,
    SERVER_IMAGES,
    SERVER_WORKSPACE,
    Place,
    budget,
    features,
    kept_states,
    kept_vision,
    logits,
    patches,
    total,
)
from docagent_rl.checks.run_sizes import Model, Run, Searching, Server, Trained

# 1,000 in the vision tower, 500 each in embeddings and head, 4 layers of 2,000
MODEL = Model(
    parameters=10_000, vision=1_000, head=500, embeddings=500, layers=4, hidden=10, inner=30, kv=5,
    vocabulary=50, vision_layers=3, vision_hidden=8, vision_inner=16,
)  # fmt: skip
POLICY = Trained(MODEL, "policy", shards=8, tokens=100)
CRITIC = Trained(MODEL, "critic", shards=8, tokens=100, unused_head=True)
SERVER = Server(MODEL, share=0.5, gpus=2, longest=100)
PLAIN = {"trained": [POLICY], "server": SERVER, "reference": MODEL, "gpus_per_node": 8, "nodes": 1}
PLAIN |= {"rows": 16, "image_tokens": 20, "agents": 4, "images": 1000, "kept": 2}


def sizes(place, memory=GIB, **changes) -> dict[str, int]:
    lines = budget(Run(**(PLAIN | changes)), memory)
    return {line.what: line.size for line in lines if line.place is place}


def test_shards_of_float32_weights_gradients_and_moments():
    assert MODEL.layer == 2_000
    assert (POLICY.weights, POLICY.gradients, POLICY.optimizer) == (5_000, 5_000, 10_000)
    frozen = replace(POLICY, frozen_vision=True)
    assert (frozen.weights, frozen.gradients, frozen.optimizer) == (5_000, 4_500, 9_000)
    assert (CRITIC.gradients, CRITIC.optimizer) == (4_750, 9_500)
    assert (POLICY.checkpoint, frozen.checkpoint) == (120_000, 112_000)


def test_states_of_layers():
    # a token: 2 (8 x 10 + 2 x 5 + 4 x 30) + 8 x 10 = 500 bytes a layer, of which 20 are its input
    assert kept_states(MODEL, 100, checkpointing=False) == 100 * 4 * 500
    assert kept_states(MODEL, 100, checkpointing=True) == 100 * (4 * 20 + 500)
    # a patch: 2 (11 x 8 + 4 x 16) + 8 x 8 = 368, input 16; four patches a token
    assert kept_vision(MODEL, 10, checkpointing=False) == 40 * 3 * 368
    assert kept_vision(MODEL, 10, checkpointing=True) == 40 * (3 * 16 + 368)
    assert features(1) == 4 * 1176 * 4 == 8 * patches(1)


def test_logits_of_all_positions_and_of_512_at_a_time():
    head = 2 * 50 * 10
    assert logits(MODEL, 1000, fused=False) == 1000 * 50 * 12 + head
    assert logits(MODEL, 1000, fused=True) == 512 * 50 * 22 + head
    assert logits(MODEL, 100, fused=True) == 100 * 50 * 22 + head


def test_keys_and_values_of_the_longest_session():
    assert SERVER.weights == 10_000
    assert SERVER.session == 2 * 2 * 4 * 5 * 100 // 2


def test_the_update_holds_the_shards_of_all_and_the_work_of_one():
    assert sizes(Place.UPDATE, trained=[POLICY, CRITIC]) == {
        "policy: weights": 5_000,
        "policy: optimizer": 10_000,
        "critic: weights": 5_000,
        "critic: optimizer": 9_500,
        "policy: gradients": 5_000,
        "policy: gathered layers": 2 * (500 + 500 + 2 * 2_000) + 4 * 2_000,
        "policy: states of 100 tokens": 58_000,
        "policy: states of 20 visual tokens": 80 * (48 + 368) + features(20),
        "policy: logits, fused": 100 * 50 * 22 + 1_000,
        "contexts": CONTEXT,
    }


def test_what_is_offloaded_waits_in_host_memory():
    away = [replace(POLICY, offloaded=True), replace(CRITIC, offloaded=True)]
    update = sizes(Place.UPDATE, trained=away)
    assert "critic: weights" not in update
    assert update["policy: weights"] == 5_000
    assert not any("policy" in what for what in sizes(Place.ROLLOUT, trained=away))
    assert sizes(Place.HOST, trained=away)["policy: weights and optimizer"] == 8 * 15_000


def test_a_server_that_does_not_sleep_keeps_its_share_during_updates():
    awake = sizes(Place.UPDATE, 8 * GIB, server=replace(SERVER, sleeps=False))
    assert awake["rollout server, awake"] == 4 * GIB


def test_the_servers_cache_is_what_its_share_leaves_and_one_session_at_least():
    found = sizes(Place.ROLLOUT, 8 * GIB)
    cache = 4 * GIB - 10_000 - SERVER_WORKSPACE
    assert found[f"server: cache, {cache // 4_000} of the longest sessions at 100 tokens"] == cache
    assert sum(found.values()) == 15_000 + 4 * GIB + CONTEXT
    assert sizes(Place.ROLLOUT)["server: cache, 0 of the longest sessions at 100 tokens"] == 4_000


def test_a_node_holds_its_part_of_the_reference_and_of_the_features():
    one, two = (sizes(Place.HOST, nodes=n, trained=[replace(POLICY, shards=8 * n)]) for n in (1, 2))
    rows = "images of 16 rows, queue and workers"
    assert (one["reference, float32"], two["reference, float32"]) == (40_000, 20_000)
    assert (one[rows], two[rows]) == (32 * patches(20), 16 * patches(20))
    assert one["image caches of the servers"] == 4 * SERVER_IMAGES
    assert one["processes"] == 16 * PROCESS + 4 * AGENT_PROCESS
    assert one["largest model while it loads"] == 40_000


def test_a_retriever_is_in_its_actors_or_in_all_that_ask():
    own = Searching("retriever", model=100, index=7, processes=3, own=True)
    near = Searching("text_retriever", model=10, index=5, processes=5, own=False)
    lines = sizes(Place.HOST, nodes=2, searching=[own, near])
    assert lines["retriever: model in 2 processes"] == 200
    assert lines["retriever: 2 processes"] == 2 * SEARCH_PROCESS
    assert (lines["retriever: index, mapped"], lines["text_retriever: index, mapped"]) == (7, 5)
    assert lines["text_retriever: model in 3 processes"] == 30
    assert "text_retriever: 3 processes" not in lines
    lines = sizes(Place.HOST, searching=[replace(own, processes=1, gpu=True)])
    assert "retriever: model in 1 process" not in lines
    assert lines["retriever: 1 process"] == SEARCH_PROCESS


def test_a_text_model_has_no_features_and_tied_ones_load_everywhere():
    text = replace(MODEL, vision=0, head=0, vision_layers=0)
    found = sizes(Place.HOST, trained=[replace(POLICY, model=text)], image_tokens=0)
    assert not any("images" in what for what in found)
    assert found["largest model while it loads"] == 8 * 40_000


@pytest.mark.parametrize(
    ("kept", "best", "number"), [(1, 0, 2), (2, 0, 2), (3, 0, 3), (None, 0, 1), (2, 1, 3)]
)
def test_checkpoints_on_disk_while_one_replaces_another_and_the_best(kept, best, number):
    assert sum(sizes(Place.DISK, kept=kept, best=bool(best)).values()) == number * 120_000


def test_the_least_is_without_estimates():
    lines = budget(Run(**PLAIN), GIB)
    least = total(lines, Place.UPDATE, exact=True)
    assert least == 5_000 + 10_000 + 5_000 + 18_000 < total(lines, Place.UPDATE)
