from pathlib import Path

import pytest

from docagent_rl.rewards.custom.config import RewardFunctionConfig
from docagent_rl.rewards.custom.function import RewardFunction


@pytest.fixture
def load(tmp_path):
    """Write a reward function to a file and load it."""

    def written(text: str, **settings) -> RewardFunction:
        file: Path = tmp_path / "mine.py"
        file.write_text(text)
        return RewardFunction(RewardFunctionConfig(path=str(file), **settings))

    return written
