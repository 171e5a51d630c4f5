"""The GPUs of a machine, divided among the policy and the models that it needs, by their plan."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from docagent_rl.base.errors import UserError
from docagent_rl.checks.cards import card_memory, seen, usable
from docagent_rl.checks.model_sizes import known_sizes
from docagent_rl.checks.placement.demand import Needs, Pool, ServiceDemand, TrainerLayout
from docagent_rl.checks.placement.plan import Plan, make_plan
from docagent_rl.checks.placement.read import read_needs
from docagent_rl.checks.placement.refusal import require_plan
from docagent_rl.checks.placement.start import PlannedProcess, planned_servers, trainer_devices
from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.lab.papers.machine import Machine, trainer_size, wanted
from docagent_rl.lab.papers.manifest import PaperService

_JUDGE = ("docagent.judge.base_url",)
"""Keys of a service whose address the recipe reads from a variable."""
NOBODY = TrainerLayout(0, 0, 0, "no trainer")
"""The place of the policy while only a judge runs."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The GPUs that each process gets, and how its servers are started."""

    trainer: tuple[int, ...]
    """Numbers of the policy's GPUs."""
    services: Mapping[str, PlannedProcess] = field(default_factory=dict)
    """By the service's name in the manifest."""
    retriever: tuple[int, ...] = ()
    """The GPU of the retriever's model; empty if it runs on CPUs."""
    elsewhere: tuple[str, ...] = ()
    """Services for which no GPU is left."""
    overrides: tuple[str, ...] = ()
    """Overrides with which the trainer fits."""
    refusal: str | None = None
    """The reason why the policy does not even fit alone, and a setting that would."""


def place(
    recipe: str, machine: Machine, services: Mapping[str, PaperService], *, trains: bool
) -> Placement:
    """Divide the GPUs of a machine by the plan of a recipe.

    Services that do not fit beside the others are left out, the largest first. If nothing is
    trained, those that do not play use all GPUs, as they run after the evaluation.
    """
    here = {name: each for name, each in services.items() if wanted(each)}
    needs = _needs(recipe, machine.card, _addresses(services))
    demands = {
        name: replace(demand, name=name)
        for name, each in here.items()
        for demand in needs.services
        if each.served and demand.port == each.port
    }
    if trains:
        return _placement(needs, demands, here, machine)
    playing = {name: each for name, each in demands.items() if here[name].plays}
    players = replace(needs, layouts=_players(recipe, machine.card))
    found = _placement(players, playing, here, machine)
    after = {name: each for name, each in demands.items() if not here[name].plays}
    alone = replace(needs, layouts=(NOBODY,), retriever=None)
    judging = _placement(alone, after, here, machine)
    placed = {**found.services, **judging.services}
    left = tuple(name for name in here if name not in placed)
    return replace(found, services=placed, elsewhere=left)


def _placement(
    needs: Needs,
    demands: Mapping[str, ServiceDemand],
    here: Mapping[str, PaperService],
    machine: Machine,
) -> Placement:
    """Place the trainer of some needs, and as many of the demands as fit beside it."""
    memory = card_memory(machine.card)
    pool = Pool(1, machine.gpus, usable(memory))
    chosen = sorted(demands.values(), key=lambda each: each.sizes.parameters)
    plan = None
    while plan is None:
        kept = tuple(each for each in demands.values() if each in chosen)
        asked = replace(needs, services=kept)
        plan = make_plan(asked, pool)
        if plan is None and not chosen:
            alone = tuple(range(trainer_size(machine.gpus)))
            return Placement(alone, elsewhere=tuple(here), refusal=_why(asked, pool))
        del chosen[-1:]
    return _read(plan, here, seen(memory))


def _why(needs: Needs, pool: Pool) -> str | None:
    """Return the refusal of a run."""
    try:
        require_plan(needs, pool)
    except UserError as error:
        return str(error)
    return None


def _read(plan: Plan, here: Mapping[str, PaperService], seen_bytes: int) -> Placement:
    starts = {start.name: start for start in planned_servers(plan, seen_bytes)}
    return Placement(
        trainer=tuple(range(plan.trainer.gpus)),
        services={name: starts[name] for name in here if name in starts},
        retriever=tuple(set(trainer_devices(plan)) - set(range(plan.trainer.gpus))),
        elsewhere=tuple(name for name in here if name not in starts),
        overrides=plan.trainer.overrides,
    )


def _addresses(services: Mapping[str, PaperService]) -> tuple[str, ...]:
    """Return overrides with which all services of a run are on this machine."""
    found = []
    for each in services.values():
        keys = each.keys or (_JUDGE if each.in_training else ())
        found += [f"{key}=http://127.0.0.1:{each.port}/v1" for key in keys]
    return tuple(found)


@cache
def _needs(recipe: str, card: str, overrides: tuple[str, ...]) -> Needs:
    return read_needs(recipe, composed_recipe(recipe, overrides), card_memory(card))


@cache
def _players(recipe: str, card: str) -> tuple[TrainerLayout, ...]:
    """Return the policy as a server that plays, on numbers of GPUs."""
    config = composed_recipe(recipe)
    sizes = known_sizes(str(config.actor_rollout_ref.model.path))
    assert sizes is not None, recipe
    context = int(config.data.max_prompt_length) + int(config.data.max_response_length)
    policy = ServiceDemand("policy", "", sizes, context, 1, 0)
    most = int(config.actor_rollout_ref.rollout.tensor_model_parallel_size)
    return tuple(
        TrainerLayout(1, gpus, policy.least(min(gpus, most)), "GPU, rollout")
        for gpus in (1, 2, 4, 8)
    )
