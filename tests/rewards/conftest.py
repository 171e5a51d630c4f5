"""A judge behind a server on the loopback."""

from collections.abc import Callable

import pytest

from tests.chat_server import ChatServer, serving


@pytest.fixture
async def judge_server():
    async with serving(ChatServer(script=["<judge>True</judge>"])) as server:
        yield server


@pytest.fixture
def openai_judge(judge_server, monkeypatch) -> Callable:
    from docagent_rl.rewards.judge import JudgeConfig, make_judge

    def make(**changes):
        settings = {
            "base_url": judge_server.url,
            "model": "m",
            "timeout_s": 5,
            "deadline_s": 10,
            "backoff_s": 0,
        }
        return make_judge(JudgeConfig(kind="openai", **{**settings, **changes}))

    return make
