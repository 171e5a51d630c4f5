"""Sizes of a run as its recipe and its system give them."""

from __future__ import annotations

import pytest

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


@pytest.mark.parametrize(("name", "several"), [("ONE", False), ("SEVERAL", True)])
def test_rows_that_fill_no_mini_batch_are_refused_where_their_number_is_known(
    recipe, tmp_path, monkeypatch, request, name, several
):
    """The example's system, once as it is and once with several rows a session."""
    (tmp_path / "own_rows.py").write_text(OWN)
    monkeypatch.syspath_prepend(request.config.rootpath / "examples")
    monkeypatch.syspath_prepend(tmp_path)
    run = recipe(RECIPE, f"docagent.system=own_rows:{name}", "data.train_batch_size=24", cpu=False)
    run.docagent.env = {}
    assert read_layout(run).several_rows is several
    problems = arithmetic_problems(run)
    assert len(problems) == (not several)
    assert all("data.train_batch_size" in problem for problem in problems)


def test_systems_with_several_rows(recipe):
    assert [name for name in SYSTEMS if get_system(name).several_rows] == ["mm_doc_r1"]
    assert read_layout(recipe("mm_doc_r1_qwen3_8b")).several_rows
    run = recipe(RECIPE)
    run.docagent.system = None
    assert not read_layout(run).several_rows
    run.docagent.system = "vrag"
    with pytest.raises(UserError, match="'vrag'"):
        read_layout(run)
