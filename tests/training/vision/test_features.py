import torch

from docagent_rl.rollout.images import MAX_FEATURES
from docagent_rl.training.vision import features
from docagent_rl.training.vision.features import FREE_SHARE, FeatureStore

SIZE = 4 * 8 * 2
"""Bytes of the features of an image in bfloat16, with those of one layer."""


def made(number: int) -> list[torch.Tensor]:
    return [torch.full((2, 8), float(number + part), dtype=torch.bfloat16) for part in range(2)]


def test_the_least_recently_used_leaves_first():
    store = FeatureStore(2 * SIZE)
    store.put("a", "0", made(0))
    store.put("a", "1", made(1))
    assert store.find("a", "0") is not None
    store.put("a", "2", made(2))
    assert store.held == 2 * SIZE
    assert store.find("a", "1") is None
    for number in (0, 2):
        found = store.find("a", str(number))
        assert all(torch.equal(x, y) for x, y in zip(found, made(number), strict=True))
        assert {part.dtype for part in found} == {torch.bfloat16}


def test_models_do_not_get_each_others_features_and_are_forgotten_alone():
    store = FeatureStore(4 * SIZE)
    store.put("actor", "0", made(0))
    store.put("reference", "0", made(5))
    assert torch.equal(store.find("actor", "0")[0], made(0)[0])
    store.forget("actor")
    assert store.find("actor", "0") is None
    assert torch.equal(store.find("reference", "0")[0], made(5)[0])
    assert (store.held, len(store)) == (SIZE, 1)
    store.put("reference", "0", made(6))
    assert (store.held, len(store)) == (SIZE, 1)


def test_what_is_larger_than_all_room_is_not_kept():
    store = FeatureStore(SIZE - 1)
    store.put("a", "0", made(0))
    assert (store.held, len(store)) == (0, 0)


def test_ranks_of_a_node_share_its_free_memory(monkeypatch):
    free = 1 << 34
    monkeypatch.setattr(
        features.psutil, "virtual_memory", lambda: type("Memory", (), {"available": free})
    )
    monkeypatch.setenv("RAY_LOCAL_WORLD_SIZE", "4")
    assert features.process_features.__wrapped__().capacity == int(FREE_SHARE * free / 4)
    free = 1 << 44
    assert features.process_features.__wrapped__().capacity == MAX_FEATURES
