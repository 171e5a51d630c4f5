from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from hydra import compose, initialize_config_module

from docagent_rl.base.composition import composing_for, fine_tunes
from docagent_rl.checks.recipe_check import composed
from docagent_rl.checks.recipe_list import Kind, recipe_names

SFT, RL = "sft_vrag_rl_qwen2_5_vl_3b", "vrag_rl_qwen2_5_vl_3b"


def launched(monkeypatch, file: str | None, recipe: str, *overrides: str):
    """The configuration that Hydra composes where a file runs."""
    monkeypatch.setitem(
        sys.modules, "__main__", SimpleNamespace(**({} if file is None else {"__file__": file}))
    )
    with initialize_config_module(config_module="verl.trainer.config", version_base=None):
        return compose(recipe, overrides=[*overrides, "docagent.workspace=w"])


@pytest.mark.parametrize("recipe", recipe_names(kind=Kind.SFT))
def test_the_profile_of_verls_supervised_trainer_is_its_own(monkeypatch, recipe):
    found = launched(monkeypatch, "site-packages/verl/trainer/sft_trainer.py", recipe, "+profile=cpu")
    assert found.trainer.device == found.docagent.profile == "cpu"
    assert "actor_rollout_ref" not in found
    assert found == launched(monkeypatch, "mine.py", recipe, "+profile=sft_cpu")
    assert composed(recipe, ["+profile=cpu", "docagent.workspace=w"]) == found


@pytest.mark.parametrize("file", ["site-packages/verl/trainer/main_ppo.py", "mine.py", None])
def test_that_of_any_other_is_of_reinforcement_learning(monkeypatch, file):
    found = launched(monkeypatch, file, RL, "+profile=cpu")
    assert found.docagent.judge.kind == "rule"
    assert composed(RL, ["+profile=cpu", "docagent.workspace=w"]) == found


def test_what_is_composed_for_can_be_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__file__="sft_trainer.py"))
    assert fine_tunes()
    with composing_for(fine_tuning=False):
        assert not fine_tunes()
        with composing_for(fine_tuning=True):
            assert fine_tunes()
        assert not fine_tunes()
    assert fine_tunes()
