"""Checks that the services of a run are those that its user chose, and that they answer."""

from __future__ import annotations

import asyncio
import logging

from docagent_rl.base.errors import UserError
from docagent_rl.checks.check import ALWAYS, Check, PlannedRun, When
from docagent_rl.config import Profile
from docagent_rl.endpoints.http_client import public_url
from docagent_rl.envs.role_client import make_roles
from docagent_rl.envs.sections import SearchScope
from docagent_rl.envs.services import NO_SECOND_RANKING
from docagent_rl.retrieval.config import Backend, RetrieverConfig, ServerApi
from docagent_rl.retrieval.opening import search_servers
from docagent_rl.retrieval.service.vrag_rl import PAGES_A_QUERY
from docagent_rl.rewards.judge import make_judge

logger = logging.getLogger(__name__)


def check_second_ranking(run: PlannedRun) -> None:
    """See that there is a second ranking exactly where one is asked for.

    Raises:
        UserError: it is missing, it is the first one again, or nothing would ask for it.
    """
    text, first = run.section.text_retriever, run.section.retriever
    if not run.system.two_rankings(run.env):
        if text is not None:
            raise UserError(
                f"docagent.text_retriever is set, but {run.system.name} asks docagent.retriever alone as it "
                "is configured: set docagent.text_retriever=null"
            )
        return
    if text is None:
        raise UserError(NO_SECOND_RANKING)
    if _ranking(text) == _ranking(first):
        raise UserError(
            f"docagent.text_retriever and docagent.retriever are both {text.kind} over "
            f"{text.index or public_url(text.service.url or '')}, so that every search would list the same "
            "pages twice: give docagent.text_retriever.index an index that ranks otherwise, or set "
            "docagent.env.search.text_ranking=shared and docagent.text_retriever=null"
        )


def _ranking(config: RetrieverConfig) -> tuple:
    """What decides over the order of pages."""
    places = [path.resolve() for _, path in config.indexes("")]
    return config.kind, places, config.service.url, config.fusion, config.weights, config.options


def check_search_servers(run: PlannedRun) -> None:
    """See that released search servers can do what the environment asks for.

    Raises:
        UserError: a server of ALDEN would be asked for the whole corpus, or VRAG-RL's for more pages than it
            gives.
    """
    search = getattr(run.env, "search", None)
    corpus = getattr(search, "scope", None) is SearchScope.CORPUS
    for section, whole in run.section.retrievers().items():
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


def check_stand_ins(run: PlannedRun) -> None:
    """Refuse rules that would stand in for models without anybody having chosen them.

    The CPU profile chooses all of them.

    Raises:
        UserError: roles without a model or an explicit rule, or a judge of no kind; the message names them,
            the keys, and how to take the rules.
    """
    system, section = run.system, run.section
    if section.profile is Profile.CPU:
        return
    chosen = {role for role, config in section.roles.items() if config.backend is not None}
    if missing := [role for role in system.roles if role not in chosen]:
        keys = " ".join(f"docagent.roles.{role}.base_url=..." for role in missing)
        rules = " ".join(f"docagent.roles.{role}.backend=embedded" for role in missing)
        raise UserError(
            f"{system.name} has models play {', '.join(missing)}, and no endpoint is set for them. Serve "
            f"them and give {keys} (and .model, where it is null). Rules can play them instead, but then "
            f"this is not the paper's system: {rules}"
        )
    if system.judged and section.judge.kind is None:
        raise UserError(
            f"{system.name} has its answers judged, and no judge is chosen: set docagent.judge.kind=openai "
            "with docagent.judge.base_url and docagent.judge.model, or, which is not the paper's, one of the "
            "rules: docagent.judge.kind=rule (exact, anls, recall)"
        )


def check_services(run: PlannedRun) -> None:
    """Ask the judge, every role and every retriever that is served by somebody else for a sign of life.

    Raises:
        UserError: one cannot be asked as it is configured.
        InfrastructureError: one does not answer.
    """
    asyncio.run(_ask_services(run))


async def _ask_services(run: PlannedRun) -> None:
    store = run.section.open_store()
    roles = make_roles(run.section.roles, store)
    servers = search_servers(run.section.retrievers(), store)
    asked = (make_judge(run.section.judge), *roles.values(), *servers.values())
    await asyncio.gather(*(service.check() for service in asked))


SERVICE_CHECKS = (
    Check("second ranking", ALWAYS, check_second_ranking),
    Check("search servers", ALWAYS, check_search_servers),
    Check("prompt", ALWAYS, lambda run: run.system.load_prompt(run.env, run.section.prompt)),
    Check("stand-ins for models", When.TRAINING | When.PLAY, check_stand_ins),
)
"""Checks that run before trajectories are played without a trainer, too."""
