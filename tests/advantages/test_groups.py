import math

import pytest
import torch

from docagent_rl.advantages.groups import (
    Singleton,
    Std,
    cell_mean,
    cell_std,
    centre,
    check_singletons,
    equal_cells,
    group_metrics,
)
from docagent_rl.base.errors import UserError

X = torch.tensor([1.0, 2.0, 6.0, 5.0]).double()
CELL = torch.tensor([0, 0, 0, 2])


def test_statistics_by_hand() -> None:
    assert cell_mean(X, CELL, 3).tolist() == [3.0, 0.0, 5.0]
    assert cell_std(X, CELL, 3, Std.BIASED).tolist() == pytest.approx([math.sqrt(14 / 3), 0, 0])
    assert cell_std(X, CELL, 3, Std.UNBIASED).tolist() == pytest.approx([math.sqrt(7), 0, 0])
    ones = cell_std(X, CELL, 3, Std.NONE)
    assert (ones.tolist(), ones.dtype) == ([1.0] * 3, X.dtype)


def test_groups_of_one_are_refused_where_that_is_wanted() -> None:
    sizes = torch.tensor([1, 2, 2, 0])
    with pytest.raises(UserError, match=r"^1 group"):
        check_singletons(sizes, Singleton.ERROR)
    check_singletons(sizes[1:], Singleton.ERROR)
    check_singletons(sizes, Singleton.RAW)


def test_centre_and_leave_one_out() -> None:
    assert centre(X, CELL, 3, loo=False, tol=1e-6).tolist() == [-2.0, -1.0, 3.0, 0.0]
    assert centre(X, CELL, 3, loo=True, tol=1e-6).tolist() == pytest.approx([-3.0, -1.5, 4.5, 0.0])


def test_equal_up_to_rounding() -> None:
    x = torch.tensor([0.1 + 0.2, 0.3, 0.3, 0.5], dtype=torch.float64)
    cell = torch.tensor([0, 0, 1, 1])
    assert equal_cells(x, cell, 2, 1e-6).tolist() == [True, False]
    assert equal_cells(x, cell, 2, 0.0).tolist() == [False, False]
    assert not equal_cells(torch.tensor([0.0, 1.0]), torch.tensor([0, 0]), 1, 1.0).any()
    assert centre(x, cell, 2, loo=False, tol=1e-6)[:2].tolist() == [0.0, 0.0]


def test_exactly_equal_members_need_no_tolerance() -> None:
    x = torch.tensor([0.3, 0.3, math.inf, math.inf, 0.5, 0.6], dtype=torch.float64)
    assert equal_cells(x, torch.tensor([0, 0, 1, 1, 2, 2]), 3, 0.0).tolist() == [True, True, False]


def test_metrics_count_groups_of_one_apart_from_groups_of_equals() -> None:
    """Four groups have members: one a single one, one equal ones, and two different ones;
    the fifth group is empty.
    """
    x = torch.tensor([1.0, 2.0, 2.0, 0.0, 1.0, 3.0, 4.0], dtype=torch.float64)
    cell = torch.tensor([0, 1, 1, 2, 2, 3, 3])
    assert group_metrics(x, cell, 5, 1e-6, "p") == {
        "p/singleton_groups": 0.25,
        "p/equal_groups": 0.25,
    }
    assert group_metrics(x[:1], cell[:1], 1, 1e-6, "p") == {
        "p/singleton_groups": 1,
        "p/equal_groups": 0,
    }
    assert group_metrics(x[:0], cell[:0], 1, 1e-6, "p") == {
        "p/singleton_groups": 0,
        "p/equal_groups": 0,
    }
