"""Checks that the services of a run are those that its user chose; nothing here asks any of them."""

from __future__ import annotations

import logging
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.config import DocAgentConfig, Profile
from docagent_rl.endpoints.http_client import public_url
from docagent_rl.envs.roles import RoleName
from docagent_rl.envs.search_scope import SearchScope
from docagent_rl.envs.services import NO_SECOND_RANKING
from docagent_rl.envs.system import System
from docagent_rl.retrieval.config import Backend, RetrieverConfig, ServerApi
from docagent_rl.retrieval.service.vrag_api import PAGES_A_QUERY

logger = logging.getLogger(__name__)


def check_second_ranking(config: DocAgentConfig, system: System, env: Any) -> None:
    """See that there is a second ranking exactly where one is asked for.

    Args:
        config: the section `docagent`.
        system: its system.
        env: the configuration of the environment.

    Raises:
        UserError: it is missing, it is the first one again, or nothing would ask for it.
    """
    text = config.text_retriever
    if not system.two_rankings(env):
        if text is not None:
            raise UserError(
                f"docagent.text_retriever is set, but {system.name} asks docagent.retriever alone as it is "
                "configured: set docagent.text_retriever=null"
            )
        return
    if text is None:
        raise UserError(NO_SECOND_RANKING)
    first = config.retriever
    if _ranking(text) == _ranking(first):
        raise UserError(
            f"docagent.text_retriever and docagent.retriever are both {text.kind} over "
            f"{text.index or public_url(text.service.url or '')}, "
            "so that every search would list the same pages twice: give docagent.text_retriever.index an "
            "index that ranks otherwise, or set docagent.env.search.text_ranking=shared and "
            "docagent.text_retriever=null"
        )


def _ranking(config: RetrieverConfig) -> tuple:
    """What decides over the order of pages."""
    places = [path.resolve() for _, path in config.indexes("")]
    return config.kind, places, config.service.url, config.fusion, config.weights, config.options


def check_search_servers(config: DocAgentConfig, env: Any) -> None:
    """See that released search servers can do what the environment asks for.

    Args:
        config: the section `docagent`.
        env: the configuration of the environment.

    Raises:
        UserError: a server of ALDEN would be asked for the whole corpus, or VRAG-RL's for more pages than it
            gives.
    """
    search = getattr(env, "search", None)
    corpus = getattr(search, "scope", None) is SearchScope.CORPUS
    for section, whole in config.retrievers().items():
        for key, each in whole.flat(section):
            if each.backend is Backend.HTTP:
                _check_api(f"{key}.service.api", each.service.api, corpus, getattr(search, "top_k", 1))


def _check_api(key: str, api: ServerApi, corpus: bool, top_k: int) -> None:
    if api is ServerApi.ALDEN and corpus:
        raise UserError(
            f"{key}=alden: such a server searches one document, and docagent.env.search.scope is corpus: set "
            "docagent.env.search.scope=document, or ask a server of another kind"
        )
    if api is ServerApi.VRAG_RL and top_k > PAGES_A_QUERY:
        raise UserError(
            f"{key}=vrag_rl: such a server gives {PAGES_A_QUERY} pages a query, and "
            f"docagent.env.search.top_k is {top_k}"
        )
    if api in (ServerApi.VRAG_RL, ServerApi.VRAG_RL_FAISS) and not corpus:
        logger.warning(
            "%s=%s: such a server searches all documents; pages of others than the question's are left out, "
            "and few may remain",
            key,
            api.value,
        )


def check_stand_ins(config: DocAgentConfig, system: System) -> None:
    """Refuse rules that would stand in for models without anybody having chosen them.

    The CPU profile chooses all of them.

    Raises:
        UserError: roles without a model or an explicit rule, or a judge of no kind; the message names them,
            the keys, and how to take the rules.
    """
    if config.profile is Profile.CPU:
        return
    if missing := [role for role in system.roles if not _chosen(config, role)]:
        keys = " ".join(f"docagent.roles.{role}.base_url=..." for role in missing)
        rules = " ".join(f"docagent.roles.{role}.backend=embedded" for role in missing)
        raise UserError(
            f"{system.name} has models play {', '.join(missing)}, and no endpoint is set for them. Serve "
            f"them and give {keys} (and .model, where it is null). Rules can play them instead, but then "
            f"this is not the paper's system: {rules}"
        )
    if system.judged and config.judge.kind is None:
        raise UserError(
            f"{system.name} has its answers judged, and no judge is chosen: set docagent.judge.kind=openai "
            "with docagent.judge.base_url and docagent.judge.model, or, which is not the paper's, one of the "
            "rules: docagent.judge.kind=rule (exact, anls, recall)"
        )


def _chosen(config: DocAgentConfig, role: RoleName) -> bool:
    return role in config.roles and config.roles[role].backend is not None
