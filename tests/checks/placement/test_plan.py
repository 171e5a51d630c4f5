"""Plans of small cases that were computed by hand, and what holds for all of them."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.checks.budget import GIB
from docagent_rl.checks.placement.demand import Needs, Pool, TrainerLayout
from docagent_rl.checks.placement.plan import make_plan
from tests.checks.placement.demands import FIXED, demand, layouts, needs


def pool(gpus: int, nodes: int = 1, gib: int = 75) -> Pool:
    return Pool(nodes, gpus, gib * GIB)


def test_sizes_of_a_service():
    service = demand("judge", 40, cache=2, concurrency=3)
    assert service.least(1) == (40 + FIXED + 2) * GIB
    assert service.least(4) == (10 + FIXED) * GIB + GIB // 2
    assert service.request(4) == GIB // 2
    assert service.parallel_sizes == (1, 2, 4, 8)
    assert demand("judge", 1, heads=4).parallel_sizes == (1, 2, 4)
    assert demand("judge", 1, heads=3).parallel_sizes == (1,)


@pytest.mark.parametrize(
    ("gpus", "trainer"),
    [
        (1, None),  # 170 GiB
        (2, None),  # 90 GiB on each
        (3, None),
        (4, 4),  # 50 GiB on each
        (7, 4),
        (8, 8),
    ],
)
def test_a_trainer_alone_gets_as_many_gpus_as_it_can_use(gpus, trainer):
    found = make_plan(needs(), pool(gpus))
    assert (found and found.trainer.gpus) == trainer


def test_two_small_services_share_a_gpu_and_the_trainer_keeps_four():
    # 8 GPUs: a trainer on all of them leaves none; on four, each GPU that is left holds either
    one, two = demand("planner", 15, concurrency=4), demand("reader", 16, concurrency=4)
    found = make_plan(needs(one, two), pool(5))
    assert found.trainer.gpus == 4
    assert [(each.gpus, each.parallel, each.requests) for each in found.services] == [
        ((4,), 1, 4),
        ((4,), 1, 4),
    ]
    # 15 + 5 + 4 and 16 + 5 + 4 GiB on the last GPU
    assert found.used() == {
        **{(0, gpu): 50 * GIB for gpu in range(4)},
        (0, 4): (24 + 25) * GIB,
    }


def test_memory_that_is_left_goes_to_caches_evenly():
    # 75 - 2 x (20 + 5) = 25 GiB of caches: the one that wants 5 gets them, the other 20
    small, large = demand("a", 20, concurrency=5), demand("b", 20, concurrency=100)
    found = make_plan(needs(small, large), pool(5))
    assert [each.requests for each in found.services] == [5, 20]
    assert found.services[1].coverage == Fraction(1, 5)
    # equal wishes: 12 each, and the last one gets what is over
    found = make_plan(
        needs(demand("a", 20, concurrency=50), demand("b", 20, concurrency=50)), pool(5)
    )
    assert [each.requests for each in found.services] == [12, 13]


def test_a_large_model_is_shared_by_as_few_gpus_as_hold_it_with_its_requests():
    # 65 + 5 + 5 x 1/2 GiB on each of two GPUs
    extractor = demand("extractor", 130, concurrency=5)
    found = make_plan(needs(extractor), pool(8))
    assert (found.trainer.gpus, found.services[0].parallel) == (4, 2)
    assert found.services[0].gpus == (4, 5)
    # a copy has room for ten requests, so fifteen take a second copy on the two GPUs that are left
    found = make_plan(needs(replace(extractor, concurrency=15)), pool(8))
    assert (found.services[0].parallel, found.services[0].replicas) == (2, 2)
    assert (found.services[0].requests, found.services[0].coverage) == (10, 1)
    # twenty-one take one copy on all four: 32.5 + 5 GiB leave 37.5 for requests of a quarter
    found = make_plan(needs(replace(extractor, concurrency=21)), pool(8))
    assert (found.services[0].parallel, found.services[0].requests) == (4, 21)


def test_a_service_that_holds_too_little_is_copied_to_empty_gpus():
    # one GPU: 75 - 40 - 5 = 30 requests; its model has one key head, which no two GPUs can share
    judge = demand("judge", 40, concurrency=70, heads=1)
    found = make_plan(needs(judge), pool(8)).services[0]
    assert (found.replicas, found.parallel, found.requests, found.coverage) == (3, 1, 30, 1)
    assert found.gpus == (4, 5, 6)


def test_services_go_to_a_node_that_the_trainer_leaves():
    extractor, planner = demand("extractor", 130, concurrency=9), demand("planner", 15)
    found = make_plan(needs(extractor, planner), pool(8, nodes=2))
    assert found.trainer.gpus == 8
    assert {each.node for each in found.services} == {1}
    assert found.nodes == 2


def test_a_service_is_not_spread_over_nodes():
    wanted = Needs("recipe", layouts(10, 1), (demand("extractor", 130),), {})
    assert make_plan(wanted, pool(2, nodes=4)) is not None
    assert make_plan(wanted, pool(1, nodes=4)) is None


def test_a_trainer_on_several_nodes():
    layout = TrainerLayout(2, 8, 70 * GIB, "GPU, update")
    wanted = Needs("recipe", (layout,), (demand("judge", 15),), {})
    assert make_plan(wanted, pool(8, nodes=2)) is None
    found = make_plan(wanted, pool(8, nodes=3))
    assert (found.trainer, found.services[0].node, found.nodes) == (layout, 2, 3)


def test_the_retriever_gets_a_gpu_that_nothing_else_uses():
    judge = demand("judge", 15)
    assert make_plan(needs(judge, retriever="colqwen2"), pool(5)).retriever is None
    assert make_plan(needs(judge, retriever="colqwen2"), pool(6)).retriever == (0, 5)
    assert make_plan(needs(judge), pool(6)).retriever is None


SERVICES = st.lists(
    st.builds(
        demand,
        st.sampled_from("abcdef"),
        st.integers(1, 160),
        cache=st.integers(1, 4),
        concurrency=st.integers(1, 40),
        heads=st.sampled_from([1, 2, 4, 8]),
    ),
    max_size=3,
    unique_by=lambda each: each.name,
)
NEEDS = st.builds(
    lambda weights, sizes, services: Needs("recipe", layouts(weights, *sizes), tuple(services), {}),
    st.integers(1, 300),
    st.sets(st.sampled_from([1, 2, 4, 8]), min_size=1),
    SERVICES,
)
POOLS = st.builds(pool, st.integers(1, 8), st.integers(1, 2), st.sampled_from([24, 44, 75, 132]))


@settings(max_examples=150, deadline=None)
@given(NEEDS, POOLS)
def test_no_gpu_is_overfilled_and_every_service_is_placed_once(wanted, there):
    plan = make_plan(wanted, there)
    if plan is None:
        return
    assert [each.demand for each in plan.services] == list(wanted.services)
    assert plan.trainer in wanted.layouts
    used = plan.used()
    assert max(used.values()) <= there.usable
    assert all(node < there.nodes and gpu < there.gpus_per_node for node, gpu in used)
    for service in plan.services:
        assert service.parallel in service.demand.parallel_sizes
        assert len(set(service.gpus)) == len(service.gpus) == service.parallel * service.replicas
        assert service.requests >= 1
        # nothing shares a GPU with the trainer
        beside = service.node >= plan.trainer.nodes
        assert beside or min(service.gpus) >= plan.trainer.gpus_per_node


@settings(max_examples=60, deadline=None)
@given(NEEDS, POOLS, st.sampled_from(["nodes", "gpus_per_node", "usable"]))
def test_a_larger_pool_has_no_worse_plan(wanted, there, what):
    plan = make_plan(wanted, there)
    if plan is None:
        return
    more = make_plan(wanted, replace(there, **{what: getattr(there, what) + 1}))
    assert more is not None
    assert more.merit[:3] >= plan.merit[:3]
