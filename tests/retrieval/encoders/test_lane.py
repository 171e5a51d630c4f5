from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from docagent_rl.errors import UserError
from docagent_rl.retrieval.encoders.lane import Lane, find_device


@pytest.fixture(autouse=True)
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_work_has_few_threads_and_the_process_keeps_its_own():
    one, two = Lane(), Lane(threads=2)
    assert one(torch.get_num_threads) == 1
    assert two(torch.get_num_threads) == 2
    assert torch.get_num_threads() == 3
    assert one(torch.is_inference_mode_enabled)
    assert not torch.is_inference_mode_enabled()


def test_lanes_that_work_at_once_give_the_threads_back():
    lanes, meet = [Lane(), Lane()], threading.Barrier(2, timeout=120)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda lane: lane(meet.wait), lanes))
    assert torch.get_num_threads() == 3


def test_work_is_done_one_by_one_in_one_thread_and_failures_come_back():
    lane, inside = Lane(), []

    def work():
        inside.append(threading.get_ident())
        return len(inside)

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(lambda _: lane(work), range(20))) == list(range(1, 21))
    assert len(set(inside)) == 1
    with pytest.raises(ZeroDivisionError):
        lane(lambda: 1 / 0)
    assert torch.get_num_threads() == 3


@pytest.mark.parametrize("name", ["gpu", "meta", "cuda:31"])
def test_a_device_that_is_not_there_is_named(name):
    with pytest.raises(UserError, match=rf"docagent\.retriever\.encoder\.device={name}"):
        find_device(name)
