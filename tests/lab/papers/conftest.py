"""Settings of reproductions."""

import os
from collections.abc import Callable

import pytest

from docagent_rl.lab.papers.machine import Machine
from docagent_rl.lab.papers.manifest import read_paper
from docagent_rl.lab.papers.setting import Beginning, Setting


@pytest.fixture
def setting(tmp_path, monkeypatch) -> Callable[..., Setting]:
    """Return a setting of a system, by default on eight GPUs."""
    for name in [each for each in os.environ if each.startswith("DOCAGENT_")]:
        monkeypatch.delenv(name)

    def make(system: str, beginning: str = "scratch", gpus: int = 8, **more: object) -> Setting:
        manifest = read_paper(system)
        model = manifest.model(more.pop("recipe", None))
        machine = Machine(gpus, "h100")
        given = {"workspace": tmp_path / "w", **more}
        return Setting(manifest, model, Beginning(beginning), machine, **given)

    return make
