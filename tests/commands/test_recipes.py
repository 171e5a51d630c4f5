from __future__ import annotations

import pytest
from typer.testing import CliRunner

from docagent_rl.checks.recipe_list import recipe_names
from docagent_rl.commands.recipes import app
from docagent_rl.errors import UserError

RECIPE = "vrag_rl_qwen2_5_vl_3b"


@pytest.fixture
def invoke(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *args: CliRunner().invoke(app, args)


def test_the_list(invoke):
    result = invoke()
    assert result.exit_code == 0
    for name in recipe_names():
        assert name in result.stdout
    assert "overall 57.1" in result.stdout


def test_a_recipe_is_shown_with_its_notes(invoke):
    text = invoke("show", RECIPE).stdout
    assert "UniDoc" not in text
    for part in ("overall 53.5", "Departs from the paper", "docagent.retriever.model", "ColPali", "4"):
        assert part in text
    assert "The paper is silent" in text
    # of the list, it is no part
    assert "ColPali" not in invoke().stdout


def test_ablations_of_a_recipe(invoke):
    text = invoke("ablations", RECIPE).stdout
    assert "vrag_rl/no_crop" in text
    assert "54.9" in text
    assert "doc_v_star" not in text
    assert "doc_v_star/nav10" in invoke("ablations").stdout


def test_check_tells_problems_by_recipe_and_overrides(invoke, tmp_path):
    (tmp_path / "good.yaml").write_text(f"defaults: [{RECIPE}, _self_]\n")
    (tmp_path / "waiting.yaml").write_text("defaults: [good, _self_]\nalgorithm: {adv_estimator: spo}\n")
    result = invoke("check", "--folder", str(tmp_path))
    assert result.exit_code == 0
    assert "ok" in result.stdout
    (tmp_path / "bad.yaml").write_text("defaults: [good, _self_]\ndata: {train_batch_size: 33}\n")
    (tmp_path / "ablations").mkdir()
    (tmp_path / "ablations" / "small.yaml").write_text(
        "# x\n# y\n# for: good\ndata: {max_response_length: 9}\n"
    )
    result = invoke("check", "--folder", str(tmp_path))
    assert result.exit_code == 1
    assert "data.train_batch_size=33" in result.stdout
    assert "+ablations=small" in result.stdout
    assert invoke("check", "waiting", "--folder", str(tmp_path)).exit_code == 0


def test_bad_input(invoke, tmp_path):
    for args in (
        ("check", "mine"),
        ("show", "mine"),
        ("ablations", "mine"),
        ("check", "--folder", str(tmp_path / "nowhere")),
    ):
        assert isinstance(invoke(*args).exception, UserError)


def test_variants(invoke):
    assert invoke("variants").stdout.startswith("# Variants")
