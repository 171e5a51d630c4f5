from __future__ import annotations

from typing import Annotated

import typer
from typer.testing import CliRunner

from docagent_rl.commands.endpoint_options import model_options
from docagent_rl.endpoints.model_config import ModelConfig


def play(tmp_path, *arguments: str):
    seen = {}

    @model_options()
    @model_options("judge", prefix="judge-", shared=False)
    def command(
        out: Annotated[str, typer.Option(help="File.")], endpoint: ModelConfig, judge: ModelConfig
    ) -> None:
        """Do it."""
        seen.update(out=out, endpoint=endpoint, judge=judge)

    app = typer.Typer()
    app.command()(command)
    result = CliRunner().invoke(app, list(arguments))
    return result, seen


def test_a_command_gets_its_models(tmp_path):
    (tmp_path / "m.yaml").write_text("base_url: http://a/v1\nmodel: big\n")
    result, seen = play(
        tmp_path,
        *("--out", "x", "--endpoint", str(tmp_path / "m.yaml"), "--model", "small", "--max-tokens", "900"),
        *("--judge-base-url", "http://b/v1", "--judge-model", "j"),
    )
    assert result.exit_code == 0, result.output
    assert seen["out"] == "x"
    assert (seen["endpoint"].base_url, seen["endpoint"].model) == ("http://a/v1", "small")
    assert seen["endpoint"].budget.max_tokens == 900
    assert (seen["judge"].base_url, seen["judge"].model) == ("http://b/v1", "j")


def test_a_second_model_may_have_prices_without_a_budget():
    seen = {}

    @model_options()
    @model_options("judge", prefix="judge-", shared=False, priced=True)
    def command(endpoint: ModelConfig, judge: ModelConfig) -> None:
        """Do it."""
        seen.update(endpoint=endpoint, judge=judge)

    app = typer.Typer()
    app.command()(command)
    options = ["--price-in", "1", "--price-out", "2", "--judge-price-in", "3", "--judge-price-out", "4"]
    result = CliRunner().invoke(app, [*options, "--judge-currency", "EUR"])
    assert result.exit_code == 0, result.output
    assert (seen["endpoint"].price.input, seen["endpoint"].price.currency) == (1, "USD")
    assert (seen["judge"].price.output, seen["judge"].price.currency) == (4, "EUR")
    assert CliRunner().invoke(app, ["--judge-max-cost", "1"]).exit_code == 2


def test_the_help_lists_them(tmp_path):
    result, _ = play(tmp_path, "--help")
    for option in ("--base-url", "--max-cost", "--judge-model", "--price-in"):
        assert option in result.output
    assert "--judge-max-cost" not in result.output
