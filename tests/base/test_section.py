import sys
from types import SimpleNamespace
from typing import Any

import pytest
from hydra import compose, initialize_config_module
from pydantic import Field

from docagent_rl.base.errors import UserError
from docagent_rl.base.section import (
    Section,
    composing_for,
    filled,
    fine_tunes,
    keys_in_section,
    merged,
    read_yaml,
    validated,
)
from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.checks.recipe_list import TrainerKind, recipe_names
from docagent_rl.config import DocAgentConfig, plain_section
from docagent_rl.systems import get_system


def test_given_keys_win_and_their_neighbours_stay():
    defaults = {"a": 1, "b": {"c": 2, "d": 3}, "e": {"f": 4}}
    given = {"b": {"c": 5}, "e": None, "g": {"h": 6}}
    assert filled(defaults, given) == {"a": 1, "b": {"c": 5, "d": 3}, "e": {"f": 4}, "g": {"h": 6}}
    assert defaults["b"] == {"c": 2, "d": 3}


def test_nulls_count_as_left_out_at_every_depth():
    assert filled({"a": {"b": 1}}, {"a": {"b": None, "c": None}}) == {"a": {"b": 1}}
    assert filled({}, {"a": {"b": None}}) == {"a": {}}


def test_changes_go_over_what_they_change():
    base = {"a": 1, "b": {"c": 2, "d": 3}, "e": None}
    assert merged(base, {"b": {"c": 5}, "e": {"f": 4}, "a": 7}) == {
        "a": 7,
        "b": {"c": 5, "d": 3},
        "e": {"f": 4},
    }


def test_a_plain_value_in_the_place_of_a_section_is_refused_with_the_profile_too():
    assert merged({"a": False}, {"a": {"b": 1}}) == {"a": False}
    run = composed_recipe("doc_v_star_qwen2_5_vl_7b", ["+profile=cpu", "docagent.env.fetch=false"])
    parsed = DocAgentConfig.parse(plain_section(run.docagent))
    with pytest.raises(UserError, match=r"docagent\.env\.fetch: .*False"):
        get_system(parsed.system).parse_config(parsed.env)


def launched(monkeypatch, file: str | None, recipe: str, *overrides: str):
    """Return the configuration that Hydra composes if a certain file is the main module."""
    monkeypatch.setitem(
        sys.modules, "__main__", SimpleNamespace(**({} if file is None else {"__file__": file}))
    )
    with initialize_config_module(config_module="verl.trainer.config", version_base=None):
        return compose(recipe, overrides=[*overrides, "docagent.workspace=w"])


@pytest.mark.parametrize("recipe", recipe_names(kind=TrainerKind.SFT)[:2])
def test_the_profile_of_verls_supervised_trainer_is_its_own(monkeypatch, recipe):
    found = launched(
        monkeypatch, "site-packages/verl/trainer/sft_trainer.py", recipe, "+profile=cpu"
    )
    assert found.trainer.device == found.docagent.profile == "cpu"
    assert "actor_rollout_ref" not in found
    assert found == launched(monkeypatch, "mine.py", recipe, "+profile=sft_cpu")
    assert composed_recipe(recipe, ["+profile=cpu", "docagent.workspace=w"]) == found


@pytest.mark.parametrize("file", ["site-packages/verl/trainer/main_ppo.py", None])
def test_that_of_any_other_is_of_reinforcement_learning(monkeypatch, file):
    found = launched(monkeypatch, file, "vrag_rl_qwen2_5_vl_3b", "+profile=cpu")
    assert found.docagent.judge.kind == "rule"
    assert (
        composed_recipe("vrag_rl_qwen2_5_vl_3b", ["+profile=cpu", "docagent.workspace=w"]) == found
    )


def test_what_is_composed_for_can_be_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__file__="sft_trainer.py"))
    assert fine_tunes()
    with composing_for(fine_tuning=False):
        assert not fine_tunes()
        with composing_for(fine_tuning=True):
            assert fine_tunes()
        assert not fine_tunes()
    assert fine_tunes()


def test_a_key_of_a_file_stands_once(tmp_path):
    file = tmp_path / "judge.yaml"
    file.write_text("base: &b {a: 1}\nover:\n  <<: *b\n  a: 2\nother: {a: 1}\n", encoding="utf-8")
    assert read_yaml(file, "a: 1")["over"] == {"a": 2}
    file.write_text("model: a\nprice:\n  input: 1\n  input: 2\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"judge\.yaml: .*'input' occurs twice(.|\n)*line 4"):
        read_yaml(file, "a: 1")


class Inner(Section):
    """A section inside of another."""

    weight: float = 1.0


class Outer(Section):
    """A section with others, named by the user or by us."""

    inner: Inner | None = None
    named: dict[str, Inner] = Field(default_factory=dict)
    settings: dict[str, Any] = Field(default_factory=dict)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"iner": None}, "s.iner: unknown key; did you mean s.inner?"),
        ({"inner": {"wieght": 2}}, "s.inner.wieght: unknown key; did you mean s.inner.weight?"),
        ({"named": {"a": {"wait": 2}}}, "s.named.a.wait: unknown key; did you mean s.named.a.weig"),
        ({"zzz": 1}, "s.zzz: unknown key"),
    ],
)
def test_an_unknown_key_is_answered_with_the_key_that_was_meant(data, said):
    with pytest.raises(UserError) as refused:
        validated(Outer, data, "s")
    assert said in str(refused.value)


def test_the_keys_of_a_section_are_those_of_its_model_unless_it_may_have_any():
    assert keys_in_section(Outer, []) == ["inner", "named", "settings"]
    assert keys_in_section(Outer, ["inner"]) == keys_in_section(Outer, ["named", "a"]) == ["weight"]
    assert keys_in_section(Outer, ["named"]) == keys_in_section(Outer, ["settings"]) == []
    assert keys_in_section(Outer, ["iner"]) == []
