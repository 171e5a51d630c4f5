"""Checks of what an environment needs besides its documents, and of the services that answer it.

They are rankings, search servers, prompts, the user's reward function, and rules that would replace
models. Commands that play without a trainer run them too, so nothing here imports torch or verl.
"""

import asyncio
from collections.abc import Iterator

from omegaconf import OmegaConf

from docagent_rl.checks.check import ALWAYS, Check, PlannedRun, When
from docagent_rl.config import DocAgentConfig, Profile
from docagent_rl.console.run_console import looking_at
from docagent_rl.endpoints.http_client import public_url
from docagent_rl.envs.role_models import make_roles
from docagent_rl.envs.services import NO_SECOND_RANKING
from docagent_rl.retrieval.config import Backend
from docagent_rl.retrieval.opening import search_servers
from docagent_rl.rewards.custom.config import KEY
from docagent_rl.rewards.custom.function import load_reward_function
from docagent_rl.rewards.judge import make_judge


def check_second_ranking(run: PlannedRun) -> Iterator[str]:
    """Check that a second retriever is configured if and only if the system uses one."""
    text = run.section.text_retriever
    asked = run.system.two_rankings(run.env)
    if text is not None and not asked:
        yield (
            f"docagent.text_retriever is set, but with these settings {run.system.name} only uses "
            "docagent.retriever: set docagent.text_retriever=null"
        )
    if text is None and asked:
        yield NO_SECOND_RANKING


def check_search_devices(run: PlannedRun) -> Iterator[str]:
    """Find indexes with a GPU as their device that no process of theirs has reserved, and search
    actors that would share the GPUs of a trainer without any.
    """
    for section, whole in run.section.retrievers().items():
        shared = whole.service.shared_gpu_gib
        if shared is not None and OmegaConf.select(run.config, "trainer.device") == "cpu":
            yield (
                f"{section}.service.shared_gpu_gib={shared:g}: this run trains without a GPU "
                "(trainer.device=cpu): set it to null"
            )
        for key, each in whole.flat(section):
            # the parts of a remote retriever are opened in that retriever's own actors
            host = each if whole.backend is Backend.LOCAL else whole
            own = host.backend is Backend.RAY and host.service.num_gpus > 0
            if each.device not in (None, "cpu") and not own:
                yield (
                    f"{key}.device={each.device}: every process that searches would load the index "
                    "onto a GPU of the run: set backend=ray and service.num_gpus=1 as well, or "
                    "device=null and backend=http with a server (docagent-rl index serve "
                    "--settings FILE)"
                )


def check_stand_ins(run: PlannedRun) -> Iterator[str]:
    """Find roles, and a judge, that rules would replace although the user has not chosen rules.

    The CPU profile chooses rules for all of them.
    """
    system = run.system
    section = run.section
    if section.profile is Profile.CPU:
        return
    chosen = {role for role, config in section.roles.items() if config.backend is not None}
    if missing := [role for role in system.roles if role not in chosen]:
        keys = " ".join(f"docagent.roles.{role}.base_url=..." for role in missing)
        rules = " ".join(f"docagent.roles.{role}.backend=embedded" for role in missing)
        yield (
            f"{system.name} needs models for the roles {', '.join(missing)}, but no endpoints are "
            f"set. Serve them and set {keys} (and .model where it is null). Rules can replace "
            f"them, but then this is not the paper's system: {rules}"
        )
    if system.judged and section.judge.kind is None:
        yield (
            f"{system.name} needs a judge for its answers, but none is set: set "
            "docagent.judge.kind=openai with docagent.judge.base_url and docagent.judge.model. "
            "A rule can replace it, which the paper does not do: docagent.judge.kind=rule "
            "(exact, anls, recall)"
        )


def check_prompt(run: PlannedRun) -> None:
    """Check that the prompt file has the parts and variables that the system needs."""
    run.system.load_prompt(run.env, run.section.prompt)


def check_reward_function(run: PlannedRun) -> Iterator[str]:
    """Load the user's reward function and check its signature without calling it.

    Raises:
        UserError: its file or module does not exist, or its name or signature is wrong.
    """
    former = OmegaConf.select(run.config, "custom_reward_function") or {}
    if former.get("path") is not None:
        yield (
            f"custom_reward_function is an old section of verl's: set {KEY}.path and .name instead"
        )
        return
    function = load_reward_function(run.section.reward_function)
    if function is None:
        return
    formula = None if run.system.formula is None else run.system.formula(run.env)
    if formula is not None and function.name in {*formula.weights, *formula.tokens, "total"}:
        yield (
            f"{KEY}.name={function.name}: {run.system.name} has a reward term of the same name, "
            "and both would be logged under it: rename the function"
        )


def check_services(run: PlannedRun) -> None:
    """Send a test request to the judge, to every role and to every remote retriever.

    Raises:
        UserError: a service is configured wrongly.
        InfrastructureError: a service does not respond.
    """

    async def ask() -> None:
        store = run.section.open_store()
        roles = make_roles(run.section.roles, store)
        servers = search_servers(run.section.retrievers(), store)
        looking_at(f"services: {', '.join(_served(run.section)) or 'none'}")
        asked = (make_judge(run.section.judge), *roles.values(), *servers.values())
        await asyncio.gather(*(service.check() for service in asked))

    asyncio.run(ask())


def _served(section: DocAgentConfig) -> Iterator[str]:
    """Name the judge, the roles and the retrievers that others serve, with their addresses."""
    if section.judge.base_url:
        yield f"judge at {public_url(section.judge.base_url)}"
    for name, role in section.roles.items():
        if role.base_url:
            yield f"{name.value} at {public_url(role.base_url)}"
    for key, retriever in section.retrievers().items():
        if retriever.service.url:
            yield f"{key} at {public_url(retriever.service.url)}"


SERVICE_CHECKS = (
    Check("second ranking", ALWAYS, check_second_ranking),
    Check("search devices", ALWAYS, check_search_devices),
    Check("prompt", ALWAYS, check_prompt),
    Check("reward function", ALWAYS, check_reward_function),
    Check("stand-ins for models", When.TRAINING | When.PLAY, check_stand_ins),
)
"""Checks that also run before trajectories are played without a trainer."""
