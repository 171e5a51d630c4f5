import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from docagent_rl.base.errors import UserError
from docagent_rl.retrieval.encoders.devices import ModelThread, find_device


def test_work_is_done_one_by_one_in_one_thread_of_few_and_failures_come_back():
    before, model_thread, inside = torch.get_num_threads(), ModelThread(), []

    def work():
        inside.append(threading.get_ident())
        return len(inside)

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(lambda _: model_thread(work), range(20))) == list(range(1, 21))
    assert len(set(inside)) == 1
    with pytest.raises(ZeroDivisionError):
        model_thread(lambda: 1 / 0)
    assert (model_thread(torch.get_num_threads), ModelThread(threads=2)(torch.get_num_threads)) == (
        1,
        2,
    )
    assert model_thread(torch.is_inference_mode_enabled)
    assert (torch.get_num_threads(), torch.is_inference_mode_enabled()) == (before, False)


def test_a_device_that_is_not_there_is_named():
    for name in ("gpu", "cuda:31"):
        with pytest.raises(UserError, match=rf"device={name}"):
            find_device(name)
