"""Batches, micro-batches, servers and GPUs that go together under verl 0.9.1, and what to change.

Pure: integers in, problems out. Each rule's docstring names what of verl asserts it. With
micro-batches of tokens (`use_dynamic_bsz`) the rules on micro-batches fall away; mini-batches,
sequence parallelism, FSDP groups and rollout servers have to divide all the same. What verl's
`validate_config` finds is left to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

BATCH = "data.train_batch_size"
TRAJECTORIES = "actor_rollout_ref.rollout.n"
NODES = "trainer.nnodes"
PER_NODE = "trainer.n_gpus_per_node"
AXES = ("tensor_model", "data", "pipeline_model")
SERVER = tuple(f"actor_rollout_ref.rollout.{axis}_parallel_size" for axis in AXES)
TENSOR_PARALLEL = SERVER[0]


@dataclass(frozen=True, slots=True)
class Part:
    """A model in training workers: the keys of its sizes, `None` where it has no such size."""

    sequence_parallel: str
    """GPUs that share a row."""
    fsdp_size: str
    """GPUs that share the weights; -1 means all."""
    mini: str | None = None
    """Questions of a mini-batch; times `TRAJECTORIES` they count rows."""
    micro: str | None = None
    """Rows of a micro-batch of an update, on one GPU."""
    infer_micro: str | None = None
    """The same of a pass without gradients."""
    tokens: tuple[str, ...] = ()
    """Tokens of a dynamic micro-batch on one GPU, of an update and of a pass without gradients."""
    dynamic: bool = False
    """Micro-batches hold tokens rather than rows."""


@dataclass(frozen=True)
class Layout:
    """The sizes of a run: its values by key, and its models, the policy first."""

    values: Mapping[str, int]
    parts: Sequence[Part]
    longest: int
    """Tokens of the longest row."""
    several_rows: bool = False
    """A trajectory has one or more rows, so that their number is known only when it has ended."""
    mean_over_rows: bool = False
    """The loss of the policy or the critic counts rows."""
    own_servers: bool = False
    """Rollout servers have GPUs of their own."""

    @property
    def gpus(self) -> int:
        """GPUs of the training workers, and of the rollout servers that share them."""
        return self.values[NODES] * self.values[PER_NODE]

    @property
    def server(self) -> int:
        """GPUs of a rollout server."""
        return math.prod(self.values[key] for key in SERVER)

    @property
    def played(self) -> int:
        """Trajectories of a step, which are its rows where each trajectory has one."""
        return self.values[BATCH] * self.values[TRAJECTORIES]

    def workers(self, part: Part) -> int:
        """Data-parallel workers of a model (`FSDPEngine.get_data_parallel_size`); at least 1."""
        return max(self.gpus // self.values[part.sequence_parallel], 1)

    def mini_rows(self, part: Part) -> int:
        """Rows of a mini-batch."""
        return self.values[part.mini or BATCH] * self.values[TRAJECTORIES]

    @property
    def multiple(self) -> int:
        """The number that verl fills the rows of a step up to a multiple of, with empty rows.

        Source: verl 0.9.1, `trainer_base._get_required_batch_multiple`, `padding_utils`.
        """
        trained = [self.mini_rows(part) for part in self.parts if part.mini]
        return math.lcm(self.workers(self.parts[0]), *trained)

    @property
    def rows(self) -> int:
        """Rows of a step, the empty ones included; of several-row trajectories, what it is a
        multiple of.
        """
        return self.multiple if self.several_rows else _up(self.played, self.multiple)

    def changed(self, change: Mapping[str, int]) -> Layout:
        """Return the layout with other values."""
        return replace(self, values={**self.values, **change})


@dataclass(frozen=True, slots=True)
class Problem:
    """Sizes that do not go together, in one sentence with the keys, and values with which the rule
    holds.
    """

    text: str
    change: Mapping[str, int]

    def __str__(self) -> str:
        return f"{self.text}: set {_overrides(self.change)}"


def problems(layout: Layout) -> list[Problem]:
    """List what verl refuses, at the start or at the first update, and where it would add empty
    rows.
    """
    rules = (_servers, _groups, _mini_batches, _empty_rows, _micro_batches, _tokens)
    return [problem for rule in rules for problem in rule(layout)]


def remedy(layout: Layout) -> dict[str, int]:
    """Return values of keys with which all rules hold; none where they do.

    Changes are made one after the other, since one may settle or raise another problem.

    Raises:
        ValueError: no end was found.
    """
    found: dict[str, int] = {}
    for _ in range(80):
        open_problems = problems(layout.changed(found))
        if not open_problems:
            return found
        found |= open_problems[0].change
    raise ValueError(f"no sizes found that go together, the last {_overrides(found)}")


def _servers(layout: Layout) -> Iterator[Problem]:
    """`engine_workers.ActorRolloutRefWorker.init_model`; `replica.RolloutReplica.__init__`."""
    server = layout.server
    node = layout.values[PER_NODE]
    whole = server % node == 0 if server > node else node % server == 0
    if layout.own_servers or (layout.gpus % server == 0 and whole):
        return
    named = ", ".join(f"{key}={layout.values[key]}" for key in SERVER if layout.values[key] != 1)
    fits = _divisor(math.gcd(node, layout.gpus), layout.values[TENSOR_PARALLEL])
    others = {key: 1 for key in SERVER[1:] if layout.values[key] != 1}
    yield Problem(
        f"{layout.gpus} GPUs, {node} a node, cannot be divided into servers of {server} ({named})",
        {TENSOR_PARALLEL: fits, **others},
    )


def _groups(layout: Layout) -> Iterator[Problem]:
    """`FSDPEngine._init_device_mesh` and `fsdp.utils.create_device_mesh`, which torch refuses
    otherwise.
    """
    for part in layout.parts:
        shared = layout.values[part.sequence_parallel]
        group = layout.values[part.fsdp_size]
        fits = {part.sequence_parallel: _divisor(layout.gpus, shared)}
        if layout.gpus % shared:
            yield Problem(
                f"{part.sequence_parallel}={shared} does not divide {layout.gpus} GPUs", fits
            )
        if 0 < group < layout.gpus and layout.gpus % group:
            text = f"{part.fsdp_size}={group} does not divide {layout.gpus} GPUs"
            yield Problem(text, {part.fsdp_size: -1})


def _mini_batches(layout: Layout) -> Iterator[Problem]:
    """`TrainingWorker.train_mini_batch`: workers share a mini-batch."""
    for part in layout.parts:
        rows = layout.mini_rows(part)
        workers = layout.workers(part)
        if part.mini is not None and rows % workers:
            yield Problem(
                f"{_product(layout, part.mini)} rows, which {workers} data-parallel workers cannot "
                "share "
                "equally",
                _fill(layout, part.mini, workers),
            )


def _empty_rows(layout: Layout) -> Iterator[Problem]:
    """`padding_utils` fills mini-batches with empty rows, which are no part of their mean over
    rows.

    So a row of a mini-batch with empty ones weighs more than another. (In verl's own trainer modes,
    which count them, it weighs the same, and that step is smaller.) verl asserts nothing here;
    where trajectories have several rows, empty ones cannot be avoided.
    """
    if layout.mean_over_rows and not layout.several_rows and layout.rows > layout.played:
        yield Problem(
            f"{_product(layout, BATCH)} rows, to which verl adds {layout.rows - layout.played} "
            "empty ones to "
            "fill mini-batches, and the loss is a mean over rows: they would not weigh the same",
            _fill(layout, BATCH, layout.multiple),
        )


def _micro_batches(layout: Layout) -> Iterator[Problem]:
    """`workers.engine.utils.prepare_micro_batches`: not with dynamic micro-batches."""
    for part in layout.parts:
        workers = layout.workers(part)
        trained = [(part.micro, layout.mini_rows(part), "a mini-batch")] if part.mini else []
        for key, rows, of in (*trained, (part.infer_micro, layout.rows, "a step")):
            if (
                key is None
                or part.dynamic
                or rows % workers
                or rows // workers % layout.values[key] == 0
            ):
                continue
            own = rows // workers
            size = layout.values[key]
            text = f"{key}={size} does not divide the {own} rows of {of} on a GPU"
            yield Problem(text, {key: _divisor(own, size)})


def _tokens(layout: Layout) -> Iterator[Problem]:
    """`utils.seqlen_balancing.rearrange_micro_batches`: dynamic micro-batches hold the longest
    row.
    """
    for part in layout.parts:
        shared = layout.values[part.sequence_parallel]
        for key in part.tokens if part.dynamic else ():
            if layout.values[key] * shared < layout.longest:
                text = f"{key}={layout.values[key]} cannot hold a row of {layout.longest} tokens"
                yield Problem(text, {key: -(-layout.longest // shared)})


def _product(layout: Layout, key: str) -> str:
    size = layout.values[key]
    trajectories = layout.values[TRAJECTORIES]
    return f"{key}={size} times {TRAJECTORIES}={trajectories} is {size * trajectories}"


def _fill(layout: Layout, key: str, divisor: int) -> dict[str, int]:
    """Raise `key`, in questions, so that `divisor` divides its rows."""
    return {key: _up(layout.values[key], divisor // math.gcd(layout.values[TRAJECTORIES], divisor))}


def _up(number: int, step: int) -> int:
    return -(-number // step) * step


def _divisor(number: int, most: int) -> int:
    return max(d for d in range(1, min(number, most) + 1) if number % d == 0)


def _overrides(change: Mapping[str, int]) -> str:
    return " ".join(f"{key}={value}" for key, value in change.items())
