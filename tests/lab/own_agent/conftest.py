"""Folders that `init` wrote, with two PDFs beside them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from docagent_rl.lab.own_agent.own_agent import OwnAgent
from docagent_rl.lab.own_agent.project import FILE, read_project
from docagent_rl.lab.own_agent.template import DEFAULT_RECIPE, write_agent
from tests.documents.conftest import write_pdf

TEXTS = (
    "The mill in Lyon opened in spring",
    "Its wheel turns twice a minute",
    "The baker buys flour on Mondays",
)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The folder of an agent, as `init` writes it where there is no GPU."""
    for name in [each for each in os.environ if each.startswith("DOCAGENT_")]:
        monkeypatch.delenv(name)
    for name in ("mill", "bakery"):
        write_pdf(tmp_path / "pdfs" / f"{name}.pdf", [f"{name}: {text}" for text in TEXTS])
    write_agent(tmp_path / "w", tmp_path / "pdfs", DEFAULT_RECIPE, tiny=True)
    return tmp_path / "w"


@pytest.fixture
def choose(folder) -> Callable[..., None]:
    """Replace values of agent.yaml; the others stay as `init` wrote them."""

    def choose(**values: object) -> None:
        file = folder / FILE
        chosen = {**yaml.safe_load(file.read_text(encoding="utf-8")), **values}
        file.write_text(yaml.safe_dump(chosen, allow_unicode=True), encoding="utf-8")

    return choose


@pytest.fixture
def agent(folder, choose) -> Callable[..., OwnAgent]:
    """The agent of the folder with other choices, on a machine with eight GPUs."""

    def make(all_gpus: int = 8, **values: object) -> OwnAgent:
        choose(**values)
        return OwnAgent(read_project(folder), all_gpus, workspace=folder)

    return make
