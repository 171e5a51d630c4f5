"""Systems on the small world of the tests, and a server whose model plays from what it is shown."""

import json
from typing import Any

from docagent_rl.config import DocAgentConfig
from docagent_rl.endpoints.endpoint import Endpoint
from docagent_rl.endpoints.remote_model import RemoteModel
from docagent_rl.endpoints.usage import message_tokens
from docagent_rl.lab.agents.chat import ChatLimits, ChatModel, ChatPlayer
from docagent_rl.rollout.env_resources import EnvResources
from docagent_rl.rollout.trajectory import Trajectory
from tests.chat_server import completion


def resources(world: Any, system: str, **more: Any) -> EnvResources:
    """Return the resources that the environments of a system share, at the sizes of the CPU
    profile.
    """
    section = {
        "system": system,
        "workspace": world.root,
        "run_dir": world.root / "run",
        "store": world.root / "store",
        "retriever": {"index": world.root / "index"},
        "profile": "cpu",
        **more,
    }
    return EnvResources(DocAgentConfig.parse(section))


def chat_player(
    world: Any,
    server: Any,
    system: str = "vrag_rl",
    *,
    limits=None,
    meter=None,
    **more: Any,
):
    """Return a player whose model is behind the server."""
    options = {"timeout_s": 60, "deadline_s": 120, "backoff_s": 0, **more.pop("endpoint", {})}
    temperature = options.pop("temperature", 0.0)
    endpoint = Endpoint(base_url=server.url, model="m", **options)
    remote = RemoteModel(endpoint, "player", temperature=temperature, meter=meter)
    shared = resources(world, system, **more)
    return ChatPlayer(shared, ChatModel(remote), limits or ChatLimits(turn=200))


def timeless(trajectory: Trajectory) -> dict[str, Any]:
    """Return a record without times."""
    sample = json.loads(trajectory.to_json())
    for turn in sample["turns"]:
        turn["seconds"] = {}
        turn["info"].pop("seconds", None)
        for search in turn["searches"]:
            search["seconds"] = 0
    return sample


class PlayingModel:
    """A model that plays VRAG-RL from the conversation: it searches for words of the question,
    crops what it saw, and answers.

    Args:
        samples: questions whose answers it knows.
    """

    def __init__(self, samples) -> None:
        self.answers = {sample.question: sample.answers[0] for sample in samples}

    def __call__(self, request: dict) -> dict:
        messages = request["messages"]
        texts = "\n".join(text for message in messages for text in texts_of(message))
        question = next(question for question in self.answers if question in texts)
        said = [message for message in messages if message["role"] == "assistant"]
        images = sum(
            part["type"] == "image_url" for message in messages for part in parts_of(message)
        )
        text = self.turn(question, len(said), images)
        return completion(text, usage=(message_tokens(messages), len(text) // 4))

    def turn(self, question: str, number: int, images: int) -> str:
        if number == 0:
            return f"<think>I look.</think><search>{question.rstrip('?')}</search>"
        if number == 1 and images:
            return "<think>I zoom.</think><bbox>[10, 10, 90, 90]</bbox>"
        return f"<think>I know.</think><answer>{self.answers[question]}</answer>"


def parts_of(message: dict) -> list[dict]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def texts_of(message: dict) -> list[str]:
    return [part["text"] for part in parts_of(message) if part["type"] == "text"]
