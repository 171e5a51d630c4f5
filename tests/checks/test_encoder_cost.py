"""The query encoder of a run: its times, its memory, and the GPU that it may share."""

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.checks.budget import GIB, SEARCH_CONTEXT, MemoryKind, total
from docagent_rl.checks.cards import SPEEDS
from docagent_rl.checks.check import PlannedRun
from docagent_rl.checks.encoder_cost import BATCH_S, CORE, QUERY, encoder_markdown
from docagent_rl.checks.placement.read import read_needs
from docagent_rl.checks.rates import Rates
from docagent_rl.checks.recipe_check import Cluster, budget_with_encoder, composed_recipe
from docagent_rl.checks.services import check_search_devices
from docagent_rl.retrieval.config import RetrieverConfig
from docagent_rl.retrieval.encoders.devices import shared_gpu
from docagent_rl.retrieval.service.ray_actors import on_device

RECIPE = "vrag_rl_qwen2_5_vl_7b"
KEY = "docagent.retriever.service.shared_gpu_gib"
LANGUAGE = 2_208_985_600 - 665_271_296 - 233_373_696
"""Parameters of Qwen2-VL-2B that work on a token of text."""


def computed(*overrides: str, card: str = "h100"):
    return budget_with_encoder(RECIPE, overrides, Cluster(1, 8), card)


def test_times_by_hand():
    _, cost = computed()
    # 32 questions with groups of 5, and four searches in five turns
    assert (cost.searches, cost.cores, cost.batch) == (32 * 5 * 4, 8, 8)
    operations = 640 * QUERY * 2 * LANGUAGE
    slow, fast = (operations / (8 * core) for core in CORE)
    assert cost.cpu_s == pytest.approx((fast, slow))
    # eight queries take longer to compute than the weights to be read; one query does not
    each = 8 * QUERY * 2 * LANGUAGE / (SPEEDS["h100"].operations * Rates().prefill.value)
    assert cost.gpu_s == pytest.approx(80 * (BATCH_S + each))
    alone = computed("docagent.retriever.service.threads=1")[1]
    each = 2 * LANGUAGE / (SPEEDS["h100"].bandwidth * Rates().decoding.value)
    assert alone.gpu_s == pytest.approx(640 * (BATCH_S + each))
    assert computed(card="80")[1].gpu_s is None


def test_the_memory_that_it_asks_for_holds_its_weights():
    _, cost = computed()
    assert cost.shared_gib - 1 <= 2 * 2_208_985_600 / GIB + 1 <= cost.shared_gib
    table = encoder_markdown(cost, 80 * GIB)
    assert f"{KEY}=5.5" in table
    assert "CPU cores (configured)" in table
    # 7B: 2 x 2 bytes x 28 layers x 512 x 10,240 tokens over the two GPUs of a server
    each = 2 * 2 * 28 * 512 * 10_240 // 2
    assert cost.fewer == -(-(int(5.5 * GIB) + SEARCH_CONTEXT) // each)


def test_a_shared_gpu_is_counted_in_every_phase():
    plain, _ = computed()
    shared, cost = computed(f"{KEY}=5.5")
    assert cost.configured
    for place in (MemoryKind.UPDATE, MemoryKind.ROLLOUT):
        assert total(shared, place) - total(plain, place) == int(5.5 * GIB) + SEARCH_CONTEXT
        exact = total(shared, place, exact=True) - total(plain, place, exact=True)
        assert exact == int(5.5 * GIB)
    lora = ("+lora=gpu_24",)
    apart = [total(computed(*lora, *more)[0], MemoryKind.SYNC) for more in ((), (f"{KEY}=5.5",))]
    assert apart[1] - apart[0] == int(5.5 * GIB) + SEARCH_CONTEXT
    several, _ = computed(f"{KEY}=1", "docagent.retriever.service.replicas=9")
    count = total(several, MemoryKind.UPDATE, exact=True) - total(
        plain, MemoryKind.UPDATE, exact=True
    )
    assert count == 2 * GIB


def test_a_plan_gives_no_second_gpu_to_a_retriever_that_shares_one():
    memory = 81_559 << 20
    needs = read_needs(RECIPE, composed_recipe(RECIPE), memory)
    shared = read_needs(RECIPE, composed_recipe(RECIPE, [f"{KEY}=5.5"]), memory)
    assert (needs.retriever, shared.retriever) == ("colqwen2-v1.0", None)
    taken = int(5.5 * GIB) + SEARCH_CONTEXT
    pairs = zip(needs.layouts, shared.layouts, strict=True)
    assert all(after.size - before.size == taken for before, after in pairs)


def test_a_retriever_without_a_known_model_has_no_table():
    assert computed("+retriever=bm25")[1] is None


@pytest.mark.parametrize(
    ("service", "words"),
    [
        ({"backend": "local"}, "backend=ray"),
        ({"backend": "ray", "service": {"shared_gpu_gib": 5, "num_gpus": 1}}, "one of them"),
        ({"backend": "ray", "service": {"shared_gpu_gib": 0}}, "greater than 0"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(service, words):
    section = {"service": {"shared_gpu_gib": 5}} | service
    with pytest.raises(ValueError, match=words):
        RetrieverConfig(**section)


def test_a_run_without_gpus_has_none_to_share():
    overrides = [f"{KEY}=5.5", "docagent.workspace=w"]
    run = PlannedRun.of(composed_recipe(RECIPE, overrides))
    assert list(check_search_devices(run)) == []
    alone = PlannedRun.of(composed_recipe(RECIPE, [*overrides, "trainer.device=cpu"]))
    (problem,) = check_search_devices(alone)
    assert problem.startswith("docagent.retriever.service.shared_gpu_gib=5.5: this run trains")


def test_encoders_without_a_device_of_their_own_get_the_shared_one():
    section = RetrieverConfig(
        kind="hybrid",
        backend="ray",
        service={"shared_gpu_gib": 5},
        parts={
            "vectors": {"kind": "dense", "index": "a"},
            "own": {"kind": "dense", "index": "b", "encoder": {"device": "cpu"}},
            "far": {"kind": "dense", "index": "c", "encoder": {"endpoint": "http://h:1"}},
        },
    )
    parts = on_device(section, "cuda:1").parts
    assert {name: part.encoder.device for name, part in parts.items()} == {
        "vectors": "cuda:1",
        "own": "cpu",
        "far": None,
    }


def test_a_machine_without_a_gpu_is_named():
    with pytest.raises(UserError, match=r"docagent\.retriever.*=5: .* has no GPU"):
        shared_gpu(0, 5, KEY)
