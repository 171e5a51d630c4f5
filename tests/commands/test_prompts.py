from __future__ import annotations

import pytest
from typer.testing import CliRunner

from docagent_rl.commands.prompts import app
from docagent_rl.errors import UserError
from docagent_rl.prompts import prompt_file, prompt_names
from docagent_rl.systems import SYSTEMS, get_system


@pytest.fixture
def prompts(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments):
        result = CliRunner().invoke(app, list(map(str, arguments)))
        if isinstance(result.exception, UserError):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result.stdout

    return run


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_is_shown_is_a_file_that_fits_the_system(prompts, system, tmp_path):
    text = prompts("show", system)
    mine = tmp_path / "mine.yaml"
    mine.write_text(text, encoding="utf-8")
    found = get_system(system)
    assert text == prompt_file(found.default_prompt(found.parse_config({}))).read_text(encoding="utf-8")
    told = prompts("check", mine, "--system", system)
    assert f"{mine} fits {system}" in told
    assert all(part in told for part in found.prompt_spec.required)


def test_a_variant_has_its_own(prompts):
    paper, released = prompts("show", "vrag_rl_paper"), prompts("show", "vrag_rl_released")
    assert prompts("show", "vrag_rl", "--variant", "released") == released != paper
    assert prompts("show", "vrag_rl") == paper


@pytest.mark.slow
def test_a_recipe_chooses_among_those_of_a_system(prompts):
    hybrid = prompts("show", "alden", "--recipe", "alden_hybrid_qwen2_5_vl_7b")
    assert hybrid == prompts("show", "alden_hybrid") != prompts("show", "alden")
    with pytest.raises(UserError, match="alden"):
        prompts("show", "alden", "--recipe", "vrag_rl_qwen2_5_vl_7b")


def test_all_are_listed(prompts):
    assert prompts("list").split() == prompt_names()


def test_variables_that_a_file_leaves_out_are_told(prompts, tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text(
        "user: 'Q: {{ question }}'\nfeedback: 'no, {{ reason }}'\nno_new_page: none\nfinal_turn: last\n"
    )
    told = prompts("check", mine, "--system", "vrag_rl")
    assert "not used: crop, frame, pages, turns" in told
    assert "reason" in told


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user: 'Q: {{ question }}'", r"mine\.yaml: .*'feedback'"),
        ("users: x", r"mine\.yaml"),
    ],
)
def test_what_does_not_fit_is_one_error_with_part_and_file(prompts, tmp_path, text, message):
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(UserError, match=message):
        prompts("check", tmp_path / "mine.yaml", "--system", "vrag_rl")


def test_names_that_are_nothing_are_refused(prompts, tmp_path):
    with pytest.raises(UserError, match="'nobody'"):
        prompts("show", "nobody")
    with pytest.raises(UserError, match=r"gone\.yaml"):
        prompts("check", tmp_path / "gone.yaml", "--system", "vrag_rl")
    with pytest.raises(UserError, match=r"\.yaml"):
        prompts("check", tmp_path / "mine.txt", "--system", "vrag_rl")
    with pytest.raises(UserError, match="--variant"):
        prompts("show", "vrag_rl_paper", "--variant", "released")
