"""Rules of verl 0.9.1 for the sizes of batches, micro-batches, servers and GPUs, and what to
change.

These are pure functions from integers to problems. The docstring of each rule names the code in
verl that asserts it. With dynamic micro-batches (`use_dynamic_bsz`) the rules for micro-batches do
not apply; those for mini-batches, sequence parallelism, FSDP groups and rollout servers still do.
What verl's `validate_config` checks is not repeated here.
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
    """A model in training workers: the keys of its sizes, `None` if it has no such size."""

    sequence_parallel: str
    """GPUs that share a row."""
    fsdp_size: str
    """GPUs over which weights are sharded; -1 means all."""
    mini: str | None = None
    """Questions per mini-batch; multiplied by `TRAJECTORIES`, rows per mini-batch."""
    micro: str | None = None
    """Rows per micro-batch in an update, on one GPU."""
    infer_micro: str | None = None
    """Rows per micro-batch in a pass without gradients, on one GPU."""
    tokens: tuple[str, ...] = ()
    """Tokens per dynamic micro-batch on one GPU, in an update and in a pass without gradients."""
    dynamic: bool = False
    """True if the size of micro-batches is given in tokens instead of rows."""


@dataclass(frozen=True)
class Layout:
    """The sizes of a run: the values by key, and the models with the policy first."""

    values: Mapping[str, int]
    parts: Sequence[Part]
    longest: int
    """Tokens of the longest row."""
    several_rows: bool = False
    """True if a trajectory can have several rows, whose number is only known after it has ended."""
    mean_over_rows: bool = False
    """True if the loss of the policy or the critic is a mean over rows."""
    own_servers: bool = False
    """True if rollout servers have separate GPUs."""

    @property
    def gpus(self) -> int:
        """The number of GPUs of the training workers, and of rollout servers that share them."""
        return self.values[NODES] * self.values[PER_NODE]

    @property
    def server(self) -> int:
        """The number of GPUs of a rollout server."""
        return math.prod(self.values[key] for key in SERVER)

    @property
    def played(self) -> int:
        """The number of trajectories per step, which is that of rows if each has one."""
        return self.values[BATCH] * self.values[TRAJECTORIES]

    def workers(self, part: Part) -> int:
        """Return the number of a model's data-parallel workers, at least 1
        (`FSDPEngine.get_data_parallel_size`).
        """
        return max(self.gpus // self.values[part.sequence_parallel], 1)

    def mini_rows(self, part: Part) -> int:
        """Return the number of rows per mini-batch."""
        return self.values[part.mini or BATCH] * self.values[TRAJECTORIES]

    @property
    def multiple(self) -> int:
        """The number to a multiple of which verl pads the rows of a step with empty rows.

        Source: verl 0.9.1, `trainer_base._get_required_batch_multiple`, `padding_utils`.
        """
        trained = [self.mini_rows(part) for part in self.parts if part.mini]
        return math.lcm(self.workers(self.parts[0]), *trained)

    @property
    def rows(self) -> int:
        """The number of rows per step, including empty ones; with several rows per trajectory, the
        number of which it is a multiple.
        """
        return self.multiple if self.several_rows else _up(self.played, self.multiple)

    def changed(self, change: Mapping[str, int]) -> Layout:
        """Return a copy of the layout with other values."""
        return replace(self, values={**self.values, **change})


@dataclass(frozen=True, slots=True)
class Problem:
    """Incompatible sizes: a sentence with the keys, and values with which the rule is satisfied."""

    text: str
    change: Mapping[str, int]

    def __str__(self) -> str:
        return f"{self.text}: set {_overrides(self.change)}"


def problems(layout: Layout) -> list[Problem]:
    """List what verl refuses at the start or in the first update, and where it adds empty rows."""
    rules = (_servers, _groups, _mini_batches, _empty_rows, _micro_batches, _tokens)
    return [problem for rule in rules for problem in rule(layout)]


def remedy(layout: Layout) -> dict[str, int]:
    """Return values of keys with which all rules are satisfied; empty if they already are.

    Changes are made one after another, because one may solve or cause another problem.

    Raises:
        ValueError: no solution was found.
    """
    found: dict[str, int] = {}
    for _ in range(80):
        open_problems = problems(layout.changed(found))
        if not open_problems:
            return found
        found |= open_problems[0].change
    raise ValueError(f"no compatible sizes were found; the last ones were {_overrides(found)}")


def _servers(layout: Layout) -> Iterator[Problem]:
    """Servers must divide the GPUs (`engine_workers.ActorRolloutRefWorker.init_model`,
    `replica.RolloutReplica.__init__`).
    """
    server = layout.server
    node = layout.values[PER_NODE]
    whole = server % node == 0 if server > node else node % server == 0
    if layout.own_servers or (layout.gpus % server == 0 and whole):
        return
    named = ", ".join(f"{key}={layout.values[key]}" for key in SERVER if layout.values[key] != 1)
    fits = _divisor(math.gcd(node, layout.gpus), layout.values[TENSOR_PARALLEL])
    others = {key: 1 for key in SERVER[1:] if layout.values[key] != 1}
    yield Problem(
        f"{layout.gpus} GPUs, {node} per node, cannot be split into servers of {server} ({named})",
        {TENSOR_PARALLEL: fits, **others},
    )


def _groups(layout: Layout) -> Iterator[Problem]:
    """Groups must divide the GPUs, or torch refuses the mesh (`FSDPEngine._init_device_mesh`,
    `fsdp.utils.create_device_mesh`).
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
    """Workers must share a mini-batch equally (`TrainingWorker.train_mini_batch`)."""
    for part in layout.parts:
        rows = layout.mini_rows(part)
        workers = layout.workers(part)
        if part.mini is not None and rows % workers:
            yield Problem(
                f"{_product(layout, part.mini)} rows, which {workers} data-parallel workers cannot "
                "share equally",
                _fill(layout, part.mini, workers),
            )


def _empty_rows(layout: Layout) -> Iterator[Problem]:
    """A step should need no empty rows, with which `padding_utils` pads mini-batches.

    Empty rows are not part of a mean over rows, so that a row in a mini-batch with empty rows has a
    higher weight than others. (verl's own trainer modes count empty rows: weights are then equal,
    and that step is smaller.) verl does not assert this. If trajectories have several rows, empty
    rows cannot be avoided.
    """
    if layout.mean_over_rows and not layout.several_rows and layout.rows > layout.played:
        yield Problem(
            f"{_product(layout, BATCH)} rows, to which verl adds {layout.rows - layout.played} "
            "empty ones to fill mini-batches. As the loss is a mean over rows, rows would have "
            "different weights",
            _fill(layout, BATCH, layout.multiple),
        )


def _micro_batches(layout: Layout) -> Iterator[Problem]:
    """Micro-batches that are not dynamic must divide the rows of a GPU
    (`workers.engine.utils.prepare_micro_batches`).
    """
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
            text = f"{key}={size} does not divide the {own} rows of {of} on one GPU"
            yield Problem(text, {key: _divisor(own, size)})


def _tokens(layout: Layout) -> Iterator[Problem]:
    """Dynamic micro-batches must have room for the longest row
    (`utils.seqlen_balancing.rearrange_micro_batches`).
    """
    for part in layout.parts:
        shared = layout.values[part.sequence_parallel]
        for key in part.tokens if part.dynamic else ():
            if layout.values[key] * shared < layout.longest:
                text = (
                    f"{key}={layout.values[key]} is too small for a row of {layout.longest} tokens"
                )
                yield Problem(text, {key: -(-layout.longest // shared)})


def _product(layout: Layout, key: str) -> str:
    size = layout.values[key]
    trajectories = layout.values[TRAJECTORIES]
    return f"{key}={size} times {TRAJECTORIES}={trajectories} is {size * trajectories}"


def _fill(layout: Layout, key: str, divisor: int) -> dict[str, int]:
    """Return the next larger value of `key`, in questions, for which `divisor` divides the rows."""
    return {key: _up(layout.values[key], divisor // math.gcd(layout.values[TRAJECTORIES], divisor))}


def _up(number: int, step: int) -> int:
    return -(-number // step) * step


def _divisor(number: int, most: int) -> int:
    return max(d for d in range(1, min(number, most) + 1) if number % d == 0)


def _overrides(change: Mapping[str, int]) -> str:
    return " ".join(f"{key}={value}" for key, value in change.items())
