"""Composing in tests reads each of verl's files once, without which the suites take three times as
long.
"""

import pytest
from omegaconf import OmegaConf

from docagent_rl.checks.recipe_check import composed_recipe


def test_files_of_packages_are_read_once(monkeypatch):
    name = "vrag_rl_qwen2_5_vl_7b"
    composed_recipe(name, ["trainer.total_epochs=2"])
    monkeypatch.setattr(OmegaConf, "load", lambda file: pytest.fail(f"{file.name} is read again"))
    assert composed_recipe(name, ["trainer.total_epochs=3"]).trainer.total_epochs == 3
