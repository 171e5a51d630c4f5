"""Which batches, micro-batches, servers and GPUs go together under verl 0.9.1, and what to change.

Pure: integers in, problems out. Each rule names what of verl asserts it. With micro-batches of tokens
(`use_dynamic_bsz`) the rules on micro-batches, on the whole batch and on its ratio to a mini-batch fall away;
mini-batches, sequence parallelism, FSDP groups and rollout servers have to divide all the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

BATCH = "data.train_batch_size"
SESSIONS = "actor_rollout_ref.rollout.n"
NODES = "trainer.nnodes"
PER_NODE = "trainer.n_gpus_per_node"
TENSOR_PARALLEL = "actor_rollout_ref.rollout.tensor_model_parallel_size"
SERVER = (
    TENSOR_PARALLEL,
    "actor_rollout_ref.rollout.data_parallel_size",
    "actor_rollout_ref.rollout.pipeline_model_parallel_size",
)


@dataclass(frozen=True, slots=True)
class Part:
    """A model in training workers: keys of its sizes, `None` where it has no such size.

    Args:
        mini: questions of a mini-batch; times `SESSIONS` it counts rows.
        micro: rows of a micro-batch of an update, on one GPU.
        infer_micro: the same of a pass without gradients.
        tokens: of a dynamic micro-batch of an update, on one GPU.
        infer_tokens: the same of a pass without gradients.
        sequence_parallel: GPUs that share a row.
        fsdp_size: GPUs that share the weights; -1 means all.
        dynamic: whether micro-batches hold tokens rather than rows.
    """

    mini: str | None
    micro: str | None
    infer_micro: str | None
    tokens: str | None
    infer_tokens: str | None
    sequence_parallel: str
    fsdp_size: str
    dynamic: bool


@dataclass(frozen=True)
class Layout:
    """The sizes of a run.

    Args:
        values: by key of the configuration.
        parts: its models: policy, and where they are reference and critic.
        longest: tokens of the longest row.
        several_rows: a session has one or more rows, so that their number is known only when it has ended.
        mean_over_rows: the loss of the policy or the critic counts rows.
        own_servers: rollout servers have GPUs of their own.
    """

    values: Mapping[str, int]
    parts: Sequence[Part]
    longest: int
    several_rows: bool = False
    mean_over_rows: bool = False
    own_servers: bool = False

    @property
    def gpus(self) -> int:
        """Of the training workers, and of the rollout servers that share them."""
        return self.values[NODES] * self.values[PER_NODE]

    @property
    def server(self) -> int:
        """GPUs of a rollout server."""
        return math.prod(self.values[key] for key in SERVER)

    def workers(self, part: Part) -> int:
        """Data-parallel workers of a model (`FSDPEngine.get_data_parallel_size`); at least 1."""
        return max(self.gpus // self.values[part.sequence_parallel], 1)

    def mini_rows(self, part: Part) -> int:
        """Rows of a mini-batch."""
        return self.values[part.mini or BATCH] * self.values[SESSIONS]

    @property
    def multiple(self) -> int:
        """What verl fills the rows of a step up to a multiple of, with empty rows.

        Source: verl 0.9.1, `trainer_base._get_required_batch_multiple`, `padding_utils`.
        """
        trained = [self.mini_rows(part) for part in self.parts if part.mini]
        return math.lcm(self.workers(self.parts[0]), *trained)

    @property
    def rows(self) -> int:
        """Of a step, the empty ones included; where sessions have several rows, what it is a multiple of."""
        if self.several_rows:
            return self.multiple
        return -(-self.values[BATCH] * self.values[SESSIONS] // self.multiple) * self.multiple

    def changed(self, change: Mapping[str, int]) -> Layout:
        """With other values."""
        return replace(self, values={**self.values, **change})


@dataclass(frozen=True, slots=True)
class Problem:
    """What does not go together.

    Args:
        text: one sentence with the keys.
        change: values of keys with which this rule holds.
    """

    text: str
    change: Mapping[str, int]

    def __str__(self) -> str:
        return f"{self.text}: set {_overrides(self.change)}"


Rule = Callable[[Layout], Iterator[Problem]]


def problems(layout: Layout) -> list[Problem]:
    """What verl refuses, at the start or at the first update, and what it would answer with empty rows."""
    return [problem for rule in RULES for problem in rule(layout)]


def remedy(layout: Layout) -> dict[str, int]:
    """Values of keys with which all rules hold; none where they do.

    Changes are made one after the other, since one may settle or raise another problem.

    Raises:
        ValueError: no end was found.
    """
    found: dict[str, int] = {}
    for _ in range(10 * len(RULES)):
        open_problems = problems(layout.changed(found))
        if not open_problems:
            return found
        found |= open_problems[0].change
    raise ValueError(f"no sizes found that go together, the last {_overrides(found)}")


def _servers(layout: Layout) -> Iterator[Problem]:
    """`engine_workers.ActorRolloutRefWorker.init_model`; `replica.RolloutReplica.__init__`."""
    server, node = layout.server, layout.values[PER_NODE]
    whole = server % node == 0 if server > node else node % server == 0
    if layout.own_servers or (layout.gpus % server == 0 and whole):
        return
    named = ", ".join(f"{key}={layout.values[key]}" for key in SERVER if layout.values[key] != 1)
    fits = max(d for d in _divisors(math.gcd(node, layout.gpus)) if d <= layout.values[TENSOR_PARALLEL])
    others = {key: 1 for key in SERVER[1:] if layout.values[key] != 1}
    yield Problem(
        f"{layout.gpus} GPUs, {node} a node, cannot be divided into servers of {server} ({named})",
        {TENSOR_PARALLEL: fits, **others},
    )


def _groups(layout: Layout) -> Iterator[Problem]:
    """`FSDPEngine._init_device_mesh` and `fsdp.utils.create_device_mesh`, which torch refuses otherwise."""
    for part in layout.parts:
        size = layout.values[part.sequence_parallel]
        if layout.gpus % size:
            fits = max(d for d in _divisors(layout.gpus) if d <= size)
            yield Problem(
                f"{part.sequence_parallel}={size} does not divide {layout.gpus} GPUs",
                {part.sequence_parallel: fits},
            )
        size = layout.values[part.fsdp_size]
        if 0 < size < layout.gpus and layout.gpus % size:
            yield Problem(f"{part.fsdp_size}={size} does not divide {layout.gpus} GPUs", {part.fsdp_size: -1})


def _mini_batches(layout: Layout) -> Iterator[Problem]:
    """`TrainingWorker.train_mini_batch`: workers share a mini-batch."""
    for part in layout.parts:
        rows, workers = layout.mini_rows(part), layout.workers(part)
        if part.mini is None or rows % workers == 0:
            continue
        step = workers // math.gcd(layout.values[SESSIONS], workers)
        yield Problem(
            f"{part.mini}={layout.values[part.mini]} times {SESSIONS}={layout.values[SESSIONS]} is {rows} "
            f"rows, which {workers} data-parallel workers cannot share equally",
            {part.mini: _up(layout.values[part.mini], step)},
        )


def _mini_in_batch(layout: Layout) -> Iterator[Problem]:
    """`ActorConfig.validate`, `CriticConfig.validate`: not with dynamic micro-batches."""
    for part in layout.parts:
        if part.mini is None or part.dynamic or layout.values[part.mini] <= layout.values[BATCH]:
            continue
        section = part.mini.rpartition(".")[0]
        yield Problem(
            f"{part.mini}={layout.values[part.mini]} is above {BATCH}={layout.values[BATCH]}; "
            f"verl takes that with {section}.use_dynamic_bsz=true only",
            {BATCH: layout.values[part.mini]},
        )


def _batch(layout: Layout) -> Iterator[Problem]:
    """`utils.config.validate_config`: not with dynamic micro-batches of the policy."""
    rows = layout.values[BATCH] * layout.values[SESSIONS]
    if layout.parts[0].dynamic or rows % layout.gpus == 0:
        return
    step = layout.gpus // math.gcd(layout.values[SESSIONS], layout.gpus)
    yield Problem(
        f"{BATCH}={layout.values[BATCH]} times {SESSIONS}={layout.values[SESSIONS]} is {rows}, "
        f"which {layout.gpus} GPUs cannot share equally",
        {BATCH: _up(layout.values[BATCH], step)},
    )


def _empty_rows(layout: Layout) -> Iterator[Problem]:
    """`core_algos.agg_loss` divides by the rows of a mini-batch, the empty ones that verl adds included.

    verl asserts nothing here; where sessions have several rows, empty ones cannot be avoided.
    """
    rows = layout.values[BATCH] * layout.values[SESSIONS]
    if layout.several_rows or not layout.mean_over_rows or rows % layout.multiple == 0:
        return
    step = layout.multiple // math.gcd(layout.values[SESSIONS], layout.multiple)
    yield Problem(
        f"{BATCH}={layout.values[BATCH]} times {SESSIONS}={layout.values[SESSIONS]} is {rows} rows, to "
        f"which verl adds {layout.rows - rows} empty ones to fill mini-batches, and the loss is their mean",
        {BATCH: _up(layout.values[BATCH], step)},
    )


def _micro_batches(layout: Layout) -> Iterator[Problem]:
    """`workers.engine.utils.prepare_micro_batches`: not with dynamic micro-batches."""
    for part in layout.parts:
        workers = layout.workers(part)
        trained = [(part.micro, layout.mini_rows(part))] if part.mini else []
        for key, rows in (*trained, (part.infer_micro, layout.rows)):
            if key is None or part.dynamic or rows % workers:
                continue
            own, size = rows // workers, layout.values[key]
            if own % size:
                what = "of a mini-batch" if key == part.micro else "of a step"
                yield Problem(
                    f"{key}={size} does not divide the {own} rows {what} on a GPU",
                    {key: max(d for d in _divisors(own) if d <= size)},
                )


def _tokens(layout: Layout) -> Iterator[Problem]:
    """`utils.seqlen_balancing.rearrange_micro_batches`: dynamic micro-batches hold the longest row."""
    for part in layout.parts:
        shared = layout.values[part.sequence_parallel]
        for key in dict.fromkeys((part.tokens, part.infer_tokens)):
            if key is None or not part.dynamic or layout.values[key] * shared >= layout.longest:
                continue
            yield Problem(
                f"{key}={layout.values[key]} cannot hold a row of {layout.longest} tokens",
                {key: -(-layout.longest // shared)},
            )


RULES: Sequence[Rule] = (
    _servers,
    _groups,
    _mini_batches,
    _mini_in_batch,
    _batch,
    _empty_rows,
    _micro_batches,
    _tokens,
)


def _up(number: int, step: int) -> int:
    """The next multiple of `step`."""
    return -(-number // step) * step


def _divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]


def _overrides(change: Mapping[str, int]) -> str:
    return " ".join(f"{key}={value}" for key, value in change.items())
