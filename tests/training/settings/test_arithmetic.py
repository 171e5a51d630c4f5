"""Sizes of a run as its recipe and its system give them."""

from __future__ import annotations

import pytest

from docagent_rl.checks.recipe_check import composed
from docagent_rl.errors import UserError
from docagent_rl.systems import SYSTEMS, get_system
from docagent_rl.training.settings.arithmetic import arithmetic_problems, read_layout

RECIPE = "vrag_rl_qwen2_5_vl_7b"
OWN = """
from dataclasses import replace
from custom_system import SYSTEM

ONE = SYSTEM
SEVERAL = replace(SYSTEM, name="several", several_rows=True)
"""


@pytest.fixture
def own(tmp_path, monkeypatch, request):
    """A module with the example's system, once as it is and once with several rows a session."""
    (tmp_path / "own_rows.py").write_text(OWN)
    monkeypatch.syspath_prepend(request.config.rootpath / "examples")
    monkeypatch.syspath_prepend(tmp_path)
    return lambda name: composed(
        RECIPE,
        [f"docagent.system=own_rows:{name}", "~docagent.env", "data.train_batch_size=24"],
    )


def test_a_system_of_ones_own_says_whether_its_sessions_have_several_rows(own):
    assert not read_layout(own("ONE")).several_rows
    assert read_layout(own("SEVERAL")).several_rows


def test_rows_that_fill_no_mini_batch_are_refused_where_their_number_is_known(own):
    (problem,) = arithmetic_problems(own("ONE"))
    assert "data.train_batch_size" in problem
    assert arithmetic_problems(own("SEVERAL")) == []


def test_the_published_system_with_a_row_a_step():
    assert [name for name in SYSTEMS if get_system(name).several_rows] == ["mm_doc_r1"]
    assert read_layout(composed("mm_doc_r1_qwen3_8b")).several_rows


def test_a_configuration_without_a_system_has_one_row_a_session():
    config = composed(RECIPE)
    config.docagent.system = None
    assert not read_layout(config).several_rows
    config.docagent.system = "vrag"
    with pytest.raises(UserError, match="'vrag'"):
        read_layout(config)
