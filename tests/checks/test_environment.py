from __future__ import annotations

import pickle

import pytest
from hydra.core.utils import setup_globals
from omegaconf import OmegaConf
from omegaconf.errors import InterpolationResolutionError

from docagent_rl.checks.environment import settle_environment
from docagent_rl.checks.recipe_check import composed
from docagent_rl.errors import UserError

setup_globals()


@pytest.fixture
def settled(monkeypatch):
    """Settle a configuration with some variables, and read it without them, as another process would."""

    def settle(content, **variables):
        config = content if OmegaConf.is_config(content) else OmegaConf.create(content)
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            settle_environment(config)
        return pickle.loads(pickle.dumps(config))

    return settle


def written(config):
    return OmegaConf.to_container(config, resolve=False)


def test_variables_are_those_of_the_driver(settled):
    config = settled({"a": {"b": ["${oc.env:PLACE}"]}, "n": "${oc.decode:${oc.env:N}}"}, PLACE="/w", N="3")
    assert written(config) == {"a": {"b": ["/w"]}, "n": 3}


def test_a_default_counts_where_the_variable_is_not_set(settled, monkeypatch):
    monkeypatch.delenv("PLACE", raising=False)
    assert written(settled({"a": "${oc.env:PLACE,workspace}", "b": "${oc.env:PLACE,null}"})) == {
        "a": "workspace",
        "b": None,
    }


def test_keys_still_follow_other_keys(settled):
    config = settled(
        {"w": "${oc.env:PLACE}", "run": "${w}/runs", "file": "${run}/${oc.env:NAME}.txt"},
        PLACE="/w",
        NAME="x",
    )
    assert written(config) == {"w": "/w", "run": "${w}/runs", "file": "${run}/x.txt"}
    config.w = "/other"
    assert config.file == "/other/runs/x.txt"


def test_what_hangs_on_keys_and_variables_at_once_has_a_value(settled, monkeypatch):
    monkeypatch.delenv("PLACE", raising=False)
    config = settled({"b": "/b", "a": "${oc.env:PLACE,${b}}", "c": "${${oc.env:WHICH}}"}, WHICH="b")
    assert (config.a, config.c) == ("/b", "/b")
    assert settled({"b": "/b", "a": "${oc.env:PLACE,${b}}"}, PLACE="/p").a == "/p"


@pytest.mark.parametrize("value", ["${b}", "x\\", "\\${b}", "a b,c: {d}", "ü", "'", "\\\\${x}\\"])
def test_values_stay_what_they_are(settled, value):
    config = settled({"b": "B", "a": "${oc.env:V}", "c": "${oc.env:V}${b}"}, V=value)
    assert config.a == value
    assert config.c == f"{value}B"


def test_the_time_is_that_of_the_start(settled):
    config = settled({"name": "run-${now:%Y}", "dir": "${name}/x"})
    assert written(config)["name"].removeprefix("run-").isdigit()
    assert written(config)["dir"] == "${name}/x"


def test_hydra_and_what_is_missing_are_left_alone(settled):
    content = {"hydra": {"a": "${oc.env:NOT_SET}"}, "b": "???", "c": None, "d": "${hydra:job.num}"}
    assert written(settled(content)) == content


def test_a_variable_that_is_not_set_is_named(settled, monkeypatch):
    monkeypatch.delenv("PLACE", raising=False)
    with pytest.raises(InterpolationResolutionError, match="'PLACE' not found"):
        settled({"a": "${oc.env:PLACE}"})


@pytest.mark.parametrize("variable", ["JUDGE_API_KEY", "HF_TOKEN", "DB_PASSWORD", "PLAIN", "SEARCH"])
def test_a_secret_never_becomes_a_value(settled, variable):
    service = {"service": {"token_env": "SEARCH"}}
    content = {"docagent": {"judge": {"api_key_env": "PLAIN"}, "retriever": service}}
    content["x"] = f"${{oc.env:{variable}}}"
    with pytest.raises(UserError, match=rf"^x takes its value from .*{variable}") as caught:
        settled(content, **{variable: "s3cret"})
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("variable", ["TOKENIZERS_PARALLELISM", "MAX_TOKENS", "KEYBOARD", "MONKEY"])
def test_names_that_only_sound_like_secrets_pass(settled, variable):
    assert settled({"x": f"${{oc.env:{variable}}}"}, **{variable: "1"}).x == "1"


def test_a_recipe_goes_where_the_driver_was_told(settled):
    config = composed("vrag_rl_qwen2_5_vl_7b", ["docagent.judge.base_url=${oc.env:DOCAGENT_JUDGE_URL}"])
    config = settled(config, DOCAGENT_WORKSPACE="/shared/w", DOCAGENT_JUDGE_URL="http://judge:8000/v1")
    assert config.docagent.run_dir == "/shared/w/runs/vrag_rl_qwen2_5_vl_7b"
    assert config.data.train_files == "/shared/w/data/train.parquet"
    assert config.docagent.judge.base_url == "http://judge:8000/v1"
    assert "oc.env" not in OmegaConf.to_yaml(config, resolve=False)
