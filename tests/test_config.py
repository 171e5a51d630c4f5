import pytest
from omegaconf import OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.config import DocAgentConfig, data_files, merged
from docagent_rl.models import get_family

SECTION = {
    "system": "vrag_rl",
    "workspace": "w",
    "run_dir": "w/runs/x",
    "store": "w/store",
    "retriever": {"index": "w/index"},
    "env": {"display": {"min_pixels": 9, "snap": True}, "max_turns": 5},
    "env_cpu": {"display": {"min_pixels": 4}},
}


def test_the_profile_changes_sizes_only_when_it_is_on():
    grid = get_family("qwen2_5_vl").vision.grid.model_dump(mode="json")
    assert DocAgentConfig.parse(SECTION).env == merged(SECTION["env"], {"display": {"grid": grid}})
    small = DocAgentConfig.parse({**SECTION, "profile": "cpu"})
    assert small.env == {
        "display": {
            "min_pixels": 4,
            "max_pixels": 50_176,
            "snap": True,
            "grid": grid,
        },  # the system's own, with env_cpu over it
        "max_turns": 5,
        "search": {"scope": "document"},
    }
    text = DocAgentConfig.parse({**SECTION, "model_family": "qwen3"})
    assert text.env == SECTION["env"]  # a model of text has no grid
    seeker = {**SECTION, "system": "mm_doc_r1", "env": {}, "model_family": "qwen3_5"}
    assert (
        DocAgentConfig.parse(seeker).env == {}
    )  # its images are for the reader, a model of its own
    with pytest.raises(UserError, match="'vragrl'"):
        DocAgentConfig.parse({**SECTION, "profile": "cpu", "system": "vragrl"})


def test_a_systems_own_sizes_of_images_stay_and_get_the_familys_grid():
    found = DocAgentConfig.parse({**SECTION, "system": "custom_system:SYSTEM", "env": {}}).env[
        "display"
    ]
    assert (found["min_pixels"], found["max_pixels"], found["grid"]["unit"]) == (12544, 50176, 28)


def test_every_problem_is_named():
    section = {**SECTION, "sytem": 1, "retriever": {"index": "i", "kind": "col pali"}}
    del section["store"]
    with pytest.raises(UserError) as error:
        DocAgentConfig.parse(section)
    text = str(error.value)
    for piece in (
        "docagent.sytem: unknown key",
        "docagent.store: missing",
        "docagent.retriever.kind",
    ):
        assert piece in text


def test_a_store_that_is_not_there_is_told_with_the_workspace():
    with pytest.raises(UserError, match=r"/w/store .*/w; .*DOCAGENT_WORKSPACE"):
        DocAgentConfig.parse(SECTION).open_store()


def test_without_a_section():
    with pytest.raises(UserError, match="`docagent`"):
        DocAgentConfig.parse(None)


def test_merged_leaves_its_arguments_alone():
    base = {"a": {"b": 1}}
    assert merged(base, {"a": {"c": 2}, "d": {}}) == {"a": {"b": 1, "c": 2}, "d": {}}
    assert base == {"a": {"b": 1}}


def test_paths_that_verl_s_loader_would_take_for_patterns_are_refused():
    assert data_files(
        OmegaConf.create({"data": {"train_files": "my data/a.parquet"}}), "train_files"
    )
    with pytest.raises(UserError, match=r"\[ \]"):
        data_files(OmegaConf.create({"data": {"train_files": ["[old]/a.parquet"]}}), "train_files")
