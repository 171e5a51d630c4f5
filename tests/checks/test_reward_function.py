"""`recipes check` and the preflight report errors of a reward function before anything but its file
is loaded.
"""

import pytest
from omegaconf import OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.checks.environment import resolve_reward_file
from docagent_rl.checks.preflight import check_statically
from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.config import DocAgentConfig, plain_section

KEY = "reward.custom_reward_function"
RECIPE = "vrag_rl_qwen2_5_vl_7b"
GOOD = (
    "def compute_score(data_source, solution_str, ground_truth, extra_info, scale=1.0):\n    "
    "raise OSError\n"
)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(GOOD)
    return path


def checked(*overrides) -> DocAgentConfig:
    return check_statically(composed_recipe(RECIPE, ["+profile=cpu", *map(str, overrides)]))


def test_what_verls_keys_name_is_read_and_not_called(file):
    options = f"+{KEY}.reward_kwargs.scale=0.5", "docagent.reward_function.mode=replace"
    section = checked(f"{KEY}.path={file}", *options).reward_function
    assert (section.path, section.name, section.reward_kwargs) == (
        str(file),
        "compute_score",
        {"scale": 0.5},
    )
    assert checked().reward_function.path is None


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ([f"{KEY}.path={{}}/other.py"], r"path=.*other\.py: there is no file"),
        ([f"{KEY}.path={{}}/mine.py", f"{KEY}.name=score"], r"name=score: .*it has compute_score"),
        (
            [f"{KEY}.path={{}}/mine.py", f"+{KEY}.reward_kwargs.bonus=1"],
            r"mine\.py, line 1\).*'bonus'",
        ),
        ([f"{KEY}.path=pkg://users.nowhere"], r"path=pkg://users\.nowhere cannot be imported"),
        (
            ["custom_reward_function.path={}/mine.py"],
            rf"old place of this section in verl: set {KEY}\.path",
        ),
        (["docagent.reward_function.weight=0.5"], r"weight has no effect without a function"),
        ([f"{KEY}.name=mine"], r"name has no effect without a function"),
        (
            [f"{KEY}.path={{}}/mine.py", "docagent.reward_function.weight=-1"],
            r"weight: .*greater than or equal",
        ),
    ],
)
def test_what_is_wrong_is_one_message(file, overrides, message):
    with pytest.raises(UserError, match=message):
        checked(*(each.format(file.parent) for each in overrides))


def test_a_name_of_a_term_of_the_system_is_refused(file):
    file.write_text(GOOD.replace("compute_score", "outcome"))
    with pytest.raises(UserError, match=r"name=outcome: vrag_rl has a reward term of the"):
        checked(f"{KEY}.path={file}", f"{KEY}.name=outcome")


@pytest.mark.parametrize("key", [f"{KEY}.path", "docagent.reward_function.path"])
@pytest.mark.parametrize("path", ["mine.py", "./mine.py", "file://mine.py"])
def test_processes_in_other_folders_find_the_file(file, monkeypatch, key, path):
    monkeypatch.chdir(file.parent)
    config = composed_recipe(RECIPE, ["+profile=cpu", f"{key}='{path}'"])
    resolve_reward_file(config)
    assert DocAgentConfig.parse(plain_section(config.docagent)).reward_function.path == str(file)
    if key == f"{KEY}.path":
        assert OmegaConf.select(config, key) == str(file)


def test_the_path_of_a_module_stays():
    config = composed_recipe(RECIPE, ["+profile=cpu", f"{KEY}.path=pkg://mine.rewards"])
    resolve_reward_file(config)
    assert OmegaConf.select(config, f"{KEY}.path") == "pkg://mine.rewards"
