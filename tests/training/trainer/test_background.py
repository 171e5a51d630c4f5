from __future__ import annotations

import threading

import pytest

from docagent_rl.errors import UserError
from docagent_rl.training.trainer.background import Background


def test_the_caller_goes_on_and_waits_where_it_asks_to() -> None:
    done, may_end, background = [], threading.Event(), Background()
    background.start(lambda: (may_end.wait(60), done.append(0)))
    assert done == []
    may_end.set()
    for number in range(1, 9):
        background.start(lambda number=number: done.append(number))
    background.settle()
    assert done == list(range(9))


def test_a_failure_is_raised_once_where_it_is_waited_for() -> None:
    def fail() -> None:
        raise UserError("disk_7")

    background = Background()
    background.start(fail)
    with pytest.raises(UserError, match="disk_7"):
        background.start(lambda: None)
    background.settle()
