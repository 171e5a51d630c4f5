import pickle
import time

import pytest
from hydra.core.utils import setup_globals
from omegaconf import OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.checks.environment import resolve_environment, resolve_folders

setup_globals()


@pytest.fixture
def resolved(monkeypatch):
    """Resolve a configuration's environment variables, and read the result as another process
    would, which does not have them.
    """
    monkeypatch.delenv("PLACE", raising=False)

    def resolve(content, **variables):
        config = content if OmegaConf.is_config(content) else OmegaConf.create(content)
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            resolve_environment(config)
        return pickle.loads(pickle.dumps(config))

    return resolve


@pytest.mark.parametrize(
    ("content", "variables", "written"),
    [
        ({"a": {"b": ["${oc.env:PLACE}"]}, "n": "${oc.decode:${oc.env:N}}"}, {"PLACE": "/w",
        "N": "3"},
         {"a": {"b": ["/w"]}, "n": 3}),
        # a default counts where the variable is not set
        ({"a": "${oc.env:PLACE,workspace}", "b": "${oc.env:PLACE,null}"}, {}, {"a": "workspace",
        "b": None}),
        # Hydra and what is missing are left alone
        ({"hydra": {"a": "${oc.env:NOT_SET}"}, "b": "???", "c": None, "d": "${hydra:job.num}"}, {},
        None),
    ],
)  # fmt: skip
def test_variables_are_those_of_the_driver(resolved, content, variables, written):
    found = OmegaConf.to_container(resolved(content, **variables), resolve=False)
    assert found == (content if written is None else written)


def test_keys_still_follow_other_keys_and_the_time_is_that_of_the_start(resolved):
    content = {
        "w": "${oc.env:PLACE}",
        "run": "${w}/run-${now:%Y}",
        "file": "${run}/${oc.env:NAME}.txt",
    }
    config = resolved({**content, "a": "${w}"}, PLACE="/w", NAME="x")
    written = OmegaConf.to_container(config, resolve=False)
    assert (config.w, config.a) == ("/w", "/w")
    config.w = "/other"
    assert config.a == "/other"
    # what hangs on keys and variables at once has a value
    assert (written["run"], written["file"]) == (run := time.strftime("/w/run-%Y"), f"{run}/x.txt")
    config = resolved(
        {"b": "/b", "a": "${oc.env:PLACE,${b}}", "c": "${${oc.env:WHICH}}"}, WHICH="b"
    )
    assert (config.a, config.c) == ("/b", "/b")


@pytest.mark.parametrize("value", ["${b}", "x\\", "\\${b}", "a b,c: {d}", "ü", "'", "\\\\${x}\\"])
def test_values_stay_what_they_are(resolved, value):
    config = resolved({"b": "B", "a": "${oc.env:V}", "c": "${oc.env:V}${b}"}, V=value)
    assert (config.a, config.c) == (value, f"{value}B")


@pytest.mark.parametrize(
    "variable", ["JUDGE_API_KEY", "HF_TOKEN", "DB_PASSWORD", "PLAIN", "SEARCH"]
)
def test_a_secret_never_becomes_a_value(resolved, variable):
    services = {
        "judge": {"api_key_env": "PLAIN"},
        "retriever": {"service": {"token_env": "SEARCH"}},
    }
    with pytest.raises(UserError, match=rf"^x .*{variable}") as caught:
        resolved({"docagent": services, "x": f"${{oc.env:{variable}}}"}, **{variable: "s3cret"})
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("variable", ["TOKENIZERS_PARALLELISM", "MAX_TOKENS", "MONKEY"])
def test_names_that_only_sound_like_secrets_pass(resolved, variable):
    assert resolved({"x": f"${{oc.env:{variable}}}"}, **{variable: "1"}).x == "1"


def test_folders_are_absolute_where_they_are_written_and_follow_where_they_are_not(
    monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    parts = {"a": {"index": "one"}, "b": {"index": "${docagent.workspace}/two"}}
    section = {
        "workspace": "workspace",
        "run_dir": "${docagent.workspace}/runs/x",
        "store": "s3://bucket/store",
        "shown_store": None,
        "prompt": "own.yaml",
        "judge": {"prompt": "judge"},
        "retriever": {"index": "/there", "parts": parts},
    }
    config = OmegaConf.create({"docagent": section})
    resolve_folders(config)
    resolve_folders(config)
    found = OmegaConf.to_container(config, resolve=True)["docagent"]
    assert found["workspace"] == str(tmp_path / "workspace")
    assert found["run_dir"] == str(tmp_path / "workspace" / "runs" / "x")
    assert (found["store"], found["shown_store"]) == ("s3://bucket/store", None)
    assert (found["prompt"], found["judge"]["prompt"]) == (str(tmp_path / "own.yaml"), "judge")
    indexes = [
        found["retriever"]["index"],
        *(found["retriever"]["parts"][name]["index"] for name in "ab"),
    ]
    assert indexes == ["/there", str(tmp_path / "one"), str(tmp_path / "workspace" / "two")]
