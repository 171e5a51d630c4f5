import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.base.section import validated
from docagent_rl.rewards.custom.config import RewardFunctionConfig


def test_a_path_is_that_of_a_file_unless_it_names_a_module(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("mine.py", "./mine.py", f"file://{tmp_path}/mine.py", f"{tmp_path}/mine.py"):
        assert RewardFunctionConfig(path=path).file == tmp_path / "mine.py"
    for path in ("pkg://mine.rewards", "pkg://mine/rewards", None):
        assert RewardFunctionConfig(path=path).file is None


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"weight": 0.5}, "weight has no effect without a function"),
        ({"mode": "replace"}, "mode has no effect without a function"),
        ({"name": "mine", "reward_kwargs": {"a": 1}}, "name, reward_kwargs has no effect"),
        ({"path": "m.py", "mode": "replace", "weight": 0}, "weight=0 rewards nothing"),
        ({"path": "m.py", "weight": -1}, r"reward_function\.weight: .* greater than or equal to 0"),
        ({"path": "m.py", "weight": float("inf")}, r"reward_function\.weight: .* finite"),
        ({"path": "m.py", "mode": "besides"}, r"reward_function\.mode: .*'beside' or 'replace'"),
        ({"path": "m.py", "kwargs": {}}, r"reward_function\.kwargs: unknown key"),
    ],
)
def test_a_section_without_effect_or_beyond_its_range(section, message):
    with pytest.raises(UserError, match=message):
        validated(RewardFunctionConfig, section, "docagent.reward_function")


def test_no_arguments_are_none():
    assert RewardFunctionConfig(path="m.py", reward_kwargs=None).reward_kwargs == {}
