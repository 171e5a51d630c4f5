"""Resources that environments share, in training and outside it; they need no tokenizer."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

from docagent_rl.base.errors import UserError
from docagent_rl.config import DocAgentConfig
from docagent_rl.documents.shown import ShownRasters, shown_folder
from docagent_rl.documents.store import DocumentStore
from docagent_rl.endpoints.endpoint import Endpoint
from docagent_rl.envs.base import DocEnv
from docagent_rl.envs.role_models import make_roles
from docagent_rl.envs.roles import RoleBackend, RoleConfig, RoleModel, RoleName
from docagent_rl.envs.services import AT_A_TIME, EnvServices, RetrieverService
from docagent_rl.envs.token_budget import TokenCounter, estimated_tokens
from docagent_rl.retrieval import Retriever
from docagent_rl.retrieval.config import Backend, RetrieverConfig
from docagent_rl.retrieval.index_files import HEADER
from docagent_rl.retrieval.opening import open_before_run, open_retriever
from docagent_rl.rewards.custom.function import RewardFunction, load_reward_function
from docagent_rl.rewards.judge import make_judge
from docagent_rl.systems import get_system


class EnvResources:
    """Resources that a process creates once, from nothing but a configuration.

    Args:
        count_tokens: counts the tokens of a text, for systems with token budgets.
        running: whether the run's Ray cluster is up; if not, this process opens what the actors
            will open later.

    Raises:
        UserError: the store, an index, a prompt or the reward function is missing or does not fit,
            or an API key is not set.
    """

    def __init__(
        self,
        config: DocAgentConfig,
        count_tokens: TokenCounter = estimated_tokens,
        *,
        running: bool = True,
    ) -> None:
        self.config = config
        searched = config.open_store(_shown(config))
        store = open_shown_store(config, searched)
        self.system = get_system(config.system)
        self.env_config: BaseModel = self.system.parse_config(config.env)
        self.prompt = self.system.load_prompt(self.env_config, config.prompt)
        self.reward_function = load_reward_function(config.reward_function)
        retriever, *text_retriever = open_retrievers(config, searched, running=running)
        self.services = EnvServices(
            store=store,
            retriever=retriever,
            text_retriever=next(iter(text_retriever), None),
            judge=make_judge(config.judge),
            roles=make_roles(config.roles, store),
            count_tokens=count_tokens,
            prompt_tokens=config.rollout.prompt_tokens,
        )

    @property
    def policy_roles(self) -> dict[RoleName, RoleConfig]:
        """Return the roles that the policy plays, by name."""
        return {
            n: each for n, each in self.config.roles.items() if each.backend is RoleBackend.POLICY
        }

    def environment(
        self, *, validate: bool = True, roles: Mapping[RoleName, RoleModel] = MappingProxyType({})
    ) -> DocEnv:
        """Open a new environment for one trajectory, by default for an evaluation.

        `roles` are the roles that the policy plays.

        Raises:
            UserError: the policy is to play a role, which only works in a run of the trainer.
        """
        if missing := self.policy_roles.keys() - roles.keys():
            raise UserError(
                f"roles.{min(missing)}.backend is policy, which only works in a run of the "
                f"trainer: give the role an endpoint (docagent.roles.{min(missing)}.base_url and "
                ".model) or backend=embedded"
            )
        services = (
            replace(self.services, roles={**self.services.roles, **roles})
            if roles
            else self.services
        )
        env = self.system.open(self.env_config, services, self.prompt, validate=validate)
        env.reward_function = self.reward_function
        return env


def open_shown_store(config: DocAgentConfig, searched: DocumentStore) -> DocumentStore:
    """Open the store whose pages are shown: `searched`, or one with the same document ids and
    lengths.

    Raises:
        UserError: `docagent.shown_store` is not a store, or a document has a different number of
            pages there.
    """
    path = config.shown_store
    if path is None:
        return searched
    store = DocumentStore(path, shown=searched.shown)
    for doc_id in store.doc_ids():
        own, theirs = (each.document(doc_id).num_pages for each in (store, searched))
        if own != theirs:
            raise UserError(
                f"docagent.shown_store={path}: {doc_id!r} has {own} pages there, but {theirs} in "
                f"{searched.path}: both stores must contain the same documents"
            )
    return store


def _shown(config: DocAgentConfig) -> ShownRasters | None:
    if not config.rollout.shown_cache_mb:
        return None
    folders = (shown_folder(config.store.absolute()), config.workspace.absolute() / "shown")
    return ShownRasters(folders, capacity=config.rollout.shown_cache_mb << 20)


def open_retrievers(
    config: DocAgentConfig, store: DocumentStore, *, running: bool
) -> list[RetrieverService]:
    """Open the configured retriever and, if there is one, the retriever of page texts.

    Raises:
        UserError: an index is missing or does not belong to the store, or both retrievers give the
            same ranking.
    """
    settings = config.retrievers()
    opened = open_retriever if running else open_before_run
    retrievers = [opened(each, store, key) for key, each in settings.items()]
    if len({str(_ranking(each)) for each in settings.values()}) < len(settings):
        first, second = (f"{key}.index={each.index}" for key, each in settings.items())
        raise UserError(
            f"{second} gives the same ranking as {first}, so every search would list the same "
            "pages twice: build it with other settings, or set "
            "docagent.env.search.text_ranking=shared and docagent.text_retriever=null"
        )
    return [
        _service(retriever, key.rpartition(".")[2], each)
        for retriever, (key, each) in zip(retrievers, settings.items(), strict=True)
    ]


def _service(retriever: Retriever, name: str, config: RetrieverConfig) -> RetrieverService:
    service = config.service
    near = config.backend is Backend.LOCAL
    return RetrieverService(
        retriever,
        attempts=config.attempts,
        deadline_s=config.deadline_s,
        name=name,
        concurrency=AT_A_TIME if near else service.connections,
        # a local search for words is faster than a cache lookup
        cached=0 if near and config.kind == "bm25" and config.rerank is None else service.cached,
    )


_PATIENCE = {
    "base_url", "api_key_env", "timeout_s", "attempts", "backoff_s", "deadline_s", "concurrency",
    "cache_dir",
}  # fmt: skip
"""Settings of where a service is and how long to wait for it, which do not change its replies."""


def environment_identity(resources: EnvResources, *, validate: bool) -> dict[str, Any]:
    """Return what trajectories depend on besides the policy: system, prompt and services.

    The result is JSON-ready. Paths, addresses and timeouts are left out, since a run may be resumed
    elsewhere.
    """
    config = resources.config
    roles = sorted(config.roles.items())
    return {
        "system": resources.system.name,
        "validate": validate,
        "env": resources.env_config.model_dump(mode="json"),
        "prompt": resources.prompt.digest,
        "prompt_tokens": config.rollout.prompt_tokens,
        "judge": _without_patience(config.judge),
        "reward_function": _of_function(resources.reward_function),
        "roles": {name.value: _without_patience(each) for name, each in roles},
        "retrievers": {key: each.ranking_settings() for key, each in config.retrievers().items()},
    }


def _without_patience(section: Endpoint) -> dict[str, Any]:
    """Return the settings on which a service's replies depend, without those in `_PATIENCE`."""
    return section.model_dump(mode="json", exclude=_PATIENCE)


def _of_function(function: RewardFunction | None) -> dict[str, Any] | None:
    """Return the section of a reward function, with the digest of its source instead of its
    path.
    """
    if function is None:
        return None
    return {**function.config.model_dump(mode="json", exclude={"path"}), "source": function.digest}


def _ranking(config: RetrieverConfig) -> list[Any]:
    """Return what determines a ranking: the settings and the index header, with its digests."""
    header = config.index / HEADER if config.index else None
    contents = header.read_bytes() if header and header.is_file() else header
    parts = [_ranking(part) for part in config.parts.values()]
    return [config.ranking_settings(), config.service.url, contents, *parts]
