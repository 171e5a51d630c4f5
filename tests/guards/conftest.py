"""What all guards share: one world of documents, one tiny model, and one run of a system with a
scripted rollout server.

A guard holds a promise of this project to its users, in whose words it is named. It is never
removed or weakened to make room (CONTRIBUTING.md).
"""

import pytest
from omegaconf import OmegaConf

from docagent_rl.lab.tiny.model import build_tiny_model
from docagent_rl.training.settings.models import load_tokenizer
from tests.chat_server import ChatServer, serving
from tests.corpus import (  # noqa: F401  fixtures
    judge,
    make_sample,
    play,
    report_question,
    report_services,
    report_store,
    retriever,
    services,
    store,
)
from tests.training.agent_loop.lines import Server, played
from tests.training.conftest import recipe  # noqa: F401  a fixture

VRAG = "vrag_rl_qwen2_5_vl_7b"


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """Return the folder of a tiny Qwen2.5-VL."""
    return build_tiny_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="session")
def vrag(world, tiny_model, recipe):  # noqa: F811
    """Return a run of VRAG-RL on the world, in the CPU profile: its configuration, tokenizer and
    processor.
    """

    def make(*values):
        places = f"docagent.workspace={world.root}", f"actor_rollout_ref.model.path={tiny_model}"
        config = recipe(VRAG, *places, *values)
        OmegaConf.update(config, "hydra", {})
        return config, *load_tokenizer(config)

    return make


@pytest.fixture
def loop(world, vrag):
    """Play a trajectory whose server replies with these lines, or raises them; return its rows and
    its record.
    """

    async def run(*lines, values=()):
        config, tokenizer, processor = vrag(*values)
        return await played(config, Server(tokenizer, lines), processor, world.samples[0])

    return run


@pytest.fixture
async def chat():
    """Run a server of a judge or a role on the loopback interface, with scripted replies."""
    async with serving(ChatServer(script=["<judge>True</judge>"])) as server:
        yield server


@pytest.fixture
def judged_loop(loop, chat):
    """Play as `loop` does, with that server as the judge."""
    judge_values = (
        "docagent.judge.kind=openai",
        f"docagent.judge.base_url={chat.url}",
        "docagent.judge.model=m",
        "docagent.judge.backoff_s=0",
        "docagent.judge.attempts=2",
    )

    async def run(*lines, values=()):
        return await loop(*lines, values=(*judge_values, *values))

    return run
