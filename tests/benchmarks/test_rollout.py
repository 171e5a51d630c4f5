"""The trajectories that the benchmark plays are as large as their recipes allow, and both
transports carry them.
"""

from functools import partial
from itertools import pairwise

import pytest

from benchmarks.costs import FRONT_END, JOIN, RECORDS, RENDER, SEND, STORE
from benchmarks.full_trajectories import (
    FULL,
    compose_full_size,
    make_trajectories,
    make_workspace,
    passes_of,
)
from benchmarks.image_replay import StepSetup
from benchmarks.rollout import compare, front_end, qwen2_5_vl
from benchmarks.row_traffic import queue
from docagent_rl.envs.images import render

pytestmark = pytest.mark.slow(first=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("rollout")


@pytest.fixture(scope="module")
def questions(folder):
    return make_workspace(folder, documents=1, seed=1)


@pytest.fixture(scope="module")
def processor():
    return qwen2_5_vl()


PASSES = {"alden": 5, "doc_v_star": 2, "mm_doc_r1": 3, "unidoc_rl": 3, "vrag_rl": 3}
TURNS = {"alden": 7, "doc_v_star": 8, "mm_doc_r1": 4, "unidoc_rl": 10, "vrag_rl": 5}


@pytest.mark.parametrize("name", sorted(FULL))
def test_trajectories_go_on_to_their_last_turn(name, folder, questions, processor):
    run = compose_full_size(name, folder)
    batch = make_trajectories(name, run, processor, questions, trajectories=1, group=1)
    assert len(passes_of(run)) == PASSES[name]
    for made in batch.trajectories:
        assert len(made.trajectory.turns) == TURNS[name] == len(made.requests)
        for earlier, later in pairwise(made.requests):
            assert later[: len(earlier)] == earlier
        images = sum(map(len, made.row_images))
        if name == "mm_doc_r1":
            assert (len(made.ledgers), images) == (TURNS[name], 0)
        else:
            assert (len(made.ledgers), images) == (1, len(made.requests[-1]))
        if name == "alden":
            # a search shows five pages, or fewer where fewer pages have the words
            assert 4 * (TURNS[name] - 1) < images <= 5 * (TURNS[name] - 1)
        if name == "doc_v_star":
            assert images > 3 * (TURNS[name] - 2)


@pytest.mark.usefixtures("warm_processes")
def test_both_ways_of_a_system_by_part(folder, questions, processor):
    run = compose_full_size("vrag_rl", folder)
    batch = make_trajectories("vrag_rl", run, processor, questions, trajectories=2, group=2)
    ends = [front_end(folder / "model", processor)]
    setup = StepSetup(processor, partial(render, store=batch.store), ends, 2, 2, len(batch.passes))
    with queue():
        found = compare(batch, setup, max_bytes=1 << 27)
    mine, theirs = found.mine, found.theirs
    for name in (RENDER, SEND, FRONT_END, JOIN, STORE, RECORDS):
        assert mine.part(name).seconds > 0 < theirs.part(name).seconds
    assert found.preprocessings[1] == found.unique < found.preprocessings[0]
    # rows name their images
    assert 50 * mine.part(STORE).nbytes < theirs.part(STORE).nbytes
    assert 50 * mine.part(SEND).nbytes < theirs.part(SEND).nbytes
