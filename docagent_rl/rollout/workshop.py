"""What all sessions of one process share: store, retriever, judge, image features, prompt."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from docagent_rl.config import DocAgentConfig, RetrieverKind
from docagent_rl.documents import DocumentStore
from docagent_rl.envs.base import DocEnv
from docagent_rl.envs.delivery import render
from docagent_rl.envs.roles import make_roles
from docagent_rl.envs.services import EnvServices, RetrieverService
from docagent_rl.prompts import PromptTemplate
from docagent_rl.retrieval.base import Retriever
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.rewards.judge import make_judge
from docagent_rl.rollout.chat import ChatCodec
from docagent_rl.rollout.images import ImageEncoder
from docagent_rl.systems import System, get_system


def open_retriever(config: DocAgentConfig, store: DocumentStore) -> Retriever:
    """The configured retriever.

    Raises:
        UserError: the index is missing or does not belong to the store.
    """
    match config.retriever.kind:
        case RetrieverKind.BM25:
            retriever = BM25Retriever.load(config.retriever.index)
            retriever.check(store)
            return retriever


@dataclass(slots=True)
class Workshop:
    """Shared, expensive things, made once a process.

    Args:
        config: the validated configuration.
        tokenizer: the model's tokenizer.
        processor: the model's processor, `None` for a text-only model.
    """

    config: DocAgentConfig
    tokenizer: Any
    processor: Any | None
    system: System = field(init=False)
    env_config: Any = field(init=False)
    prompt: PromptTemplate = field(init=False)
    services: EnvServices = field(init=False)
    codec: ChatCodec = field(init=False)
    encoder: ImageEncoder | None = field(init=False)

    def __post_init__(self) -> None:
        config = self.config
        store = DocumentStore(config.store)
        self.system = get_system(config.system)
        self.env_config = self.system.parse_config(config.env)
        self.prompt = self.system.load_prompt(self.env_config, config.prompt)
        retriever = RetrieverService(
            open_retriever(config, store),
            attempts=config.retriever.attempts,
            deadline_s=config.retriever.deadline_s,
        )
        self.services = EnvServices(
            store=store,
            retriever=retriever,
            judge=make_judge(config.judge),
            roles=make_roles(config.roles, store),
            count_tokens=lambda text: len(self.tokenizer.encode(text, add_special_tokens=False)),
        )
        self.codec = ChatCodec(self.tokenizer, self.processor)
        self.encoder = None
        if getattr(self.processor, "image_processor", None) is not None:
            self.encoder = ImageEncoder(
                self.processor,
                lambda ref: render(ref, store),
                capacity=config.rollout.image_cache_mb << 20,
            )

    def environment(self, *, validate: bool) -> DocEnv:
        """A fresh environment for one session."""
        return self.system.env(self.env_config, self.services, self.prompt, validate=validate)


_workshops: dict[str, Workshop] = {}
_lock = threading.Lock()


def workshop(config: DocAgentConfig, tokenizer: Any, processor: Any | None) -> Workshop:
    """The workshop of this process for a configuration."""
    key = config.model_dump_json()
    with _lock:
        if key not in _workshops:
            _workshops[key] = Workshop(config, tokenizer, processor)
        return _workshops[key]
