"""Read from a configuration what a run asks of GPUs."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from omegaconf import DictConfig, OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.checks.budget import Run, budget, total
from docagent_rl.checks.budget_table import (
    CRITIC_OFFLOADED,
    ON_GPU,
    POLICY_OFFLOADED,
    read_run,
    run_on_layout,
)
from docagent_rl.checks.cards import seen
from docagent_rl.checks.model_sizes import known_sizes
from docagent_rl.checks.placement.demand import Needs, ServiceDemand, TrainerLayout
from docagent_rl.config import DocAgentConfig, plain_section
from docagent_rl.endpoints.endpoint import Endpoint
from docagent_rl.endpoints.http_client import is_loopback, public_url
from docagent_rl.envs.roles import ROLE_PROMPT_TOKENS, RoleBackend
from docagent_rl.retrieval.config import Backend
from docagent_rl.rewards.judge import JudgeKind
from docagent_rl.systems import get_system
from docagent_rl.training.settings.divisibility import (
    NODES,
    PER_NODE,
    TENSOR_PARALLEL,
    Layout,
    problems,
    remedy,
)
from docagent_rl.training.settings.layout import read_layout
from docagent_rl.training.settings.models import rank

_FIRST_PORT = 8001
_CONTEXT_STEP = 1024
_PER_NODE = (1, 2, 4, 8)
"""Numbers of GPUs per node on which a trainer is considered: sizes of groups divide them."""
_MOST_NODES = 4
_VARIABLE = re.compile(r"\$\{oc\.env:(\w+)")


def read_needs(
    recipe: str, config: DictConfig, gpu_memory: int, *, known_only: bool = False
) -> Needs:
    """Read the trainer and the services of a composed recipe.

    Services whose address is on another machine need no GPU. `gpu_memory` is what a GPU's driver
    reports, in bytes. Roles without an address are to be served here; with `known_only` they are
    left out, and so are models whose sizes are not known.

    Raises:
        UserError: the sizes of a model are not known, or two models have the same address.
    """
    section = DocAgentConfig.parse(plain_section(config.docagent))
    asked = list(_asked(config, section))
    here = [each for each in asked if _is_here(each, known_only=known_only)]
    away = {
        each.name: public_url(each.url) for each in asked if each.url and not is_loopback(each.url)
    }
    retriever = section.retriever
    own_model = retriever.backend is Backend.RAY and retriever.model is not None
    # one that shares a GPU of the trainer is part of the trainer's size
    own_model = own_model and retriever.service.shared_gpu_gib is None
    return Needs(
        recipe=recipe,
        layouts=tuple(_layouts(config, section, gpu_memory)),
        services=tuple(_demands(config, here)),
        elsewhere=away,
        adapts=rank(config.actor_rollout_ref.model) > 0,
        retriever=retriever.model if own_model else None,
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """A judge or a role, as the configuration names it."""

    name: str
    key: str
    """Key of its section."""
    endpoint: Endpoint
    tokens: int
    """Tokens of its longest request with the reply."""
    images: int = 0

    @property
    def url(self) -> str:
        """Its address; empty if it has none."""
        return self.endpoint.base_url or ""

    @property
    def port(self) -> int | None:
        """The port of its address, if it has one."""
        return urlsplit(self.url).port if self.url else None


def _is_here(asked: _Asked, *, known_only: bool) -> bool:
    """Return whether a model is to be served on the planned GPUs."""
    if known_only and known_sizes(str(asked.endpoint.model)) is None:
        return False
    return is_loopback(asked.url) if asked.url else not known_only


def _asked(config: DictConfig, section: DocAgentConfig) -> Iterator[_Asked]:
    """Yield the judge and the roles that are models of their own."""
    system = get_system(section.system)
    env = system.parse_config(section.env)
    judge = section.judge
    if system.judged and judge.kind is JudgeKind.OPENAI:
        tokens = section.rollout.turn_tokens + ROLE_PROMPT_TOKENS + judge.max_tokens
        yield _Asked("judge", "docagent.judge", judge, tokens)
    roles = {name: role for name, role in section.roles.items() if name in system.roles}
    material = system.role_tokens(env)
    images = system.role_images(env)
    longest = max((role.max_tokens for role in roles.values()), default=0)
    for name, role in roles.items():
        if role.backend in (None, RoleBackend.OPENAI):
            tokens = material.get(name, longest) + ROLE_PROMPT_TOKENS + role.max_tokens
            key = f"docagent.roles.{name}"
            yield _Asked(name.value, key, role, tokens, images.get(name, 0))


def _demands(config: DictConfig, asked: Iterable[_Asked]) -> Iterator[ServiceDemand]:
    """Yield a service for each model: roles with the same model share it."""
    groups: list[list[_Asked]] = []
    for each in asked:
        fits = (group for group in groups if _shared(group, each))
        found = next(fits, None)
        if found is None:
            groups.append([each])
        else:
            found.append(each)
    ports = _ports(groups)
    for group, port in zip(groups, ports, strict=True):
        yield _demand(config, group, port)


def _shared(group: list[_Asked], other: _Asked) -> bool:
    """Return whether a role can be played by a group's server."""
    ports = {each.port for each in [*group, other]} - {None}
    return group[0].endpoint.model == other.endpoint.model and len(ports) < 2


def _ports(groups: list[list[_Asked]]) -> list[int]:
    """Return the port of each group: the one that its addresses name, or the next free one."""
    named = [next((each.port for each in group if each.port), None) for group in groups]
    for port in set(named) - {None}:
        both = [group[0] for group, own in zip(groups, named, strict=True) if own == port]
        if len(both) > 1:
            first, second = both[:2]
            raise UserError(
                f"{first.key}.base_url and {second.key}.base_url have the same port, {port}, but "
                f"the models {first.endpoint.model} and {second.endpoint.model}: give one of them "
                "another port"
            )
    free = (port for port in range(_FIRST_PORT, 1 << 16) if port not in named)
    return [next(free) if port is None else port for port in named]


def _demand(config: DictConfig, group: list[_Asked], port: int) -> ServiceDemand:
    first = group[0]
    model = first.endpoint.model
    sizes = known_sizes(str(model))
    if model is None or sizes is None:
        raise UserError(
            f"{first.key}.model={model}: the sizes of this model are not known: download it and "
            f"name its folder, or set {first.key}.base_url to the address of a server elsewhere"
        )
    # each trajectory asks a service at most once at a time, and each worker has a limit
    played = int(config.data.train_batch_size) * int(config.actor_rollout_ref.rollout.n)
    workers = int(config.actor_rollout_ref.rollout.agent.num_workers)
    limit = max(each.endpoint.concurrency for each in group) * workers
    longest = max(each.tokens for each in group)
    return ServiceDemand(
        name="_".join(each.name for each in group),
        model=model,
        sizes=sizes,
        context=-(-longest // _CONTEXT_STEP) * _CONTEXT_STEP,
        concurrency=min(played, limit),
        port=port,
        keys=tuple(f"{each.key}.base_url" for each in group),
        variable=_variable(config, first.key),
        images=max(each.images for each in group),
    )


def _variable(config: DictConfig, key: str) -> str | None:
    """Return the environment variable from which a recipe reads an address."""
    raw = OmegaConf.to_container(OmegaConf.select(config, key), resolve=False)
    found = _VARIABLE.match(str(raw.get("base_url"))) if isinstance(raw, Mapping) else None
    return found and found.group(1)


def _layouts(
    config: DictConfig, section: DocAgentConfig, gpu_memory: int
) -> Iterator[TrainerLayout]:
    """Yield the trainer on the numbers of GPUs that its batches allow."""
    run = read_run(config, section)
    if run is None:
        return
    per_node = int(config.trainer.n_gpus_per_node)
    one = [(1, gpus) for gpus in sorted({*_PER_NODE, per_node})]
    most = max(_MOST_NODES, int(config.trainer.nnodes))
    several = [(nodes, max(per_node, _PER_NODE[-1])) for nodes in range(2, most + 1)]
    for nodes, gpus in one + several:
        layout = read_layout(config, nodes, gpus)
        change = remedy(layout) if problems(layout) else {}
        if change.keys() <= {TENSOR_PARALLEL}:
            layout = layout.changed(change)
            words = tuple(f"{key}={value}" for key, value in change.items())
            plain = _layout(run_on_layout(run, config, layout), layout, gpu_memory, words)
            yield plain
            slower = run_on_layout(run, config, layout, offloaded=True)
            offloaded = _layout(slower, layout, gpu_memory, (*words, *_offloading(run)))
            if offloaded.size < plain.size:
                yield offloaded


def _offloading(run: Run) -> tuple[str, ...]:
    """Return the overrides that keep what does not train in the memory of the host."""
    return POLICY_OFFLOADED if len(run.trained) == 1 else POLICY_OFFLOADED + CRITIC_OFFLOADED


def _layout(run: Run, layout: Layout, gpu_memory: int, overrides: tuple[str, ...]) -> TrainerLayout:
    lines = budget(run, seen(gpu_memory))
    worst = max(ON_GPU, key=lambda place: total(lines, place))
    return TrainerLayout(
        nodes=layout.values[NODES],
        gpus_per_node=layout.values[PER_NODE],
        size=total(lines, worst),
        place=worst.value,
        overrides=overrides,
    )
