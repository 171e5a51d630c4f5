"""The trajectories that the benchmark plays are as large as their recipes allow, and both
transports carry them.
"""

from functools import partial

import pytest

from benchmarks.bill import FRONT_END, HAND, JOIN, RENDER, SAMPLE, STORE
from benchmarks.full_trajectories import FULL, configured, passes_of, play, workspace
from benchmarks.image_replay import Stage
from benchmarks.rollout import compare, front_end, qwen2_5_vl
from benchmarks.row_traffic import queue
from docagent_rl.envs.images import render

pytestmark = pytest.mark.slow(first=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("rollout")


@pytest.fixture(scope="module")
def questions(folder):
    return workspace(folder, documents=1, seed=1)


@pytest.fixture(scope="module")
def processor():
    return qwen2_5_vl()


PASSES = {"alden": 5, "doc_v_star": 2, "mm_doc_r1": 3, "unidoc_rl": 3, "vrag_rl": 3}
TURNS = {"alden": 7, "doc_v_star": 8, "mm_doc_r1": 4, "unidoc_rl": 10, "vrag_rl": 5}


@pytest.mark.parametrize("name", sorted(FULL))
def test_trajectories_go_on_to_their_last_turn(name, folder, questions, processor):
    run = configured(name, folder)
    theatre = play(name, run, processor, questions, trajectories=1, group=1)
    assert len(passes_of(run)) == PASSES[name]
    for trajectory in theatre.trajectories:
        assert len(trajectory.trajectory.turns) == TURNS[name] == len(trajectory.requests)
        for earlier, later in zip(trajectory.requests, trajectory.requests[1:], strict=False):
            assert later[: len(earlier)] == earlier
        images = sum(map(len, trajectory.rows))
        if name == "mm_doc_r1":
            assert (len(trajectory.ledgers), images) == (TURNS[name], 0)
        else:
            assert (len(trajectory.ledgers), images) == (1, len(trajectory.requests[-1]))
        if name == "alden":
            assert (
                4 * (TURNS[name] - 1) < images <= 5 * (TURNS[name] - 1)
            )  # as pages with the words go
        if name == "doc_v_star":
            assert images > 3 * (TURNS[name] - 2)


@pytest.mark.usefixtures("warm_processes")
def test_both_ways_of_a_system_by_part(folder, questions, processor):
    theatre = play(
        "vrag_rl", configured("vrag_rl", folder), processor, questions, trajectories=2, group=2
    )
    ends = [front_end(folder / "model", processor)]
    stage = Stage(processor, partial(render, store=theatre.store), ends, 2, 2, len(theatre.passes))
    with queue():
        found = compare(theatre, stage, room=1 << 27)
    mine, theirs = found.mine, found.theirs
    for name in (RENDER, HAND, FRONT_END, JOIN, STORE, SAMPLE):
        assert mine.part(name).seconds > 0 < theirs.part(name).seconds
    assert found.preprocessings[1] == found.unique < found.preprocessings[0]
    # rows name their images
    assert 50 * mine.part(STORE).nbytes < theirs.part(STORE).nbytes
    assert 50 * mine.part(HAND).nbytes < theirs.part(HAND).nbytes
