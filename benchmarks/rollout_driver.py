"""Measure processor time and memory of our work in the driver in a step, by part.

python -m benchmarks.rollout_driver --trajectories 64 --trajectories 128

Trajectories of several rows (MM-Doc-R1: 512 of 8) go through the agent loop's own output into the
real TransferQueue. Then the trainer mode's methods do their parts of a step: they find out which
trajectories are there, compute the advantages of `--estimator`, write the archive, and compute
verl's own metrics of the step, which in our mode happens before the checkpoint. The rest of verl's
work is not counted: the padded rewards and mask that it gives to an estimator are prepared before,
and its copies of the results are not made.
"""

from __future__ import annotations

import asyncio
import gc
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, cast

import ray
import torch
import transfer_queue as tq
import typer
from omegaconf import OmegaConf
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY
from verl.trainer.ppo.v1.trainer_base import PPOTrainer
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from benchmarks.common import filler, show
from docagent_rl.config import AdvantageConfig
from docagent_rl.rollout.ledger import TurnLedger
from docagent_rl.rollout.trajectory import Status, Trajectory, TrajectoryTurn
from docagent_rl.training.agent_loop.output import training_rows
from docagent_rl.training.trainer.accounts import Accounts
from docagent_rl.training.trainer.estimators import our_estimator
from docagent_rl.training.trainer.mixin import DocAgentTrainerMixin
from docagent_rl.training.trainer.trajectory_reader import TrajectoryReader

STEP = 1
AT_STEP = {"min_global_steps": STEP, "max_global_steps": STEP}


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of a step.

    Args:
        trajectories: the number of trajectories, eight to a group.
        rows: the number of rows of a trajectory.
        tokens: the number of positions in a row's response region.
        turns: the number of turns of a row.
        sampled: the number of sampled tokens of a turn.
    """

    trajectories: int
    rows: int
    tokens: int
    turns: int
    sampled: int

    @property
    def all_rows(self) -> int:
        """The number of rows of the step."""
        return self.trajectories * self.rows


def played(shape: Shape, number: int) -> tuple[list[TurnLedger], Trajectory]:
    """Make trajectory `number` with random tokens, as the agent loop has it after its last turn.

    Returns:
        the token ledger of each row, and the trajectory.
    """
    random_ = random.Random(number)
    made = Trajectory(
        f"group{number // 8}", number % 8, STEP, "train", {"question_id": f"q{number // 8}"},
        "mm_doc_r1",
        status=Status.FINISHED.value, end="answered", metrics={"reward/outcome": random_.random()},
    )  # fmt: skip
    between = max((shape.tokens - shape.turns * shape.sampled) // max(shape.turns - 1, 1), 1)
    ledgers = []
    for row in range(shape.rows):
        ledger = TurnLedger([1] * 16, max_response=shape.tokens + between, image_token_id=None)
        for turn in range(shape.turns):
            ids = [random_.randrange(150_000) for _ in range(shape.sampled)]
            log_probs = [-random_.random() for _ in ids]
            ledger.add_turn(ids, log_probs)
            ledger.add_reward(0.1 * turn)
            shown = [{"role": "user", "parts": [{"text": filler(random_, between)}]}]
            made.turns.append(
                TrajectoryTurn(
                    filler(random_, shape.sampled), "end_of_turn", ids, log_probs, row=row,
                    reward=0.1 * turn, terms={"outcome": 0.1 * turn}, observation=shown,
                    seconds={"generate": 1.0, "step": 0.1, "encode": 0.01},
                )
            )  # fmt: skip
            ledger.add_observation([7] * between)
        ledgers.append(ledger)
    made.reward = sum(turn.reward for turn in made.turns)
    return ledgers, made


def fill(shape: Shape, generator: torch.Generator) -> list[str]:
    """Put the rows of all trajectories into the queue as verl's worker does; return their keys."""
    keys = []
    for number in range(shape.trajectories):
        ledgers, made = played(shape, number)
        outputs = training_rows(ledgers, made, log_probs=True, steps=(STEP, STEP))
        for output in outputs[:-1]:  # as verl does
            output.extra_fields["reward_extra_info"] = outputs[-1].extra_fields["reward_extra_info"]
        fields = []
        for output in outputs:
            values = output.as_dict()
            values.pop("multi_modal_data", None)
            values["num_turns"] = shape.turns
            for name in ("old_log_probs", "advantages", "returns", "values"):
                values[name] = -torch.rand(len(values["turn_index"]), generator=generator)
            fields.append(values)
        own = [f"{made.uid}_{made.number}_{n}" for n in range(len(outputs))]
        tags = [
            {"status": "success", "global_steps": STEP, "is_padding": False} | AT_STEP for _ in own
        ]
        data = list_of_dict_to_tensordict(fields)
        asyncio.run(tq.async_kv_batch_put(keys=own, fields=data, tags=tags, partition_id="train"))
        keys += own
    return keys


@dataclass
class VerlPart:
    """The part of verl's trainer that our methods call: it gives rewards and mask to the estimator.

    Args:
        rewards: padded token-level rewards, shape (b, t).
        mask: padded response mask, shape (b, t).
        estimator: the estimator's name.
    """

    rewards: torch.Tensor
    mask: torch.Tensor
    estimator: str

    def estimate(self, batch: KVBatchMeta) -> KVBatchMeta:
        """Estimate as verl's `_compute_advantage` does, drop the result, and return the batch."""
        self.estimated()
        return batch

    def estimated(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return advantages and returns, both of shape (b, t)."""
        estimate = ADV_ESTIMATOR_REGISTRY[self.estimator]
        return estimate(token_level_rewards=self.rewards, response_mask=self.mask)


class VerlStub:
    """Takes the place of verl's trainer in the method resolution order."""

    verl: VerlPart

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        return self.verl.estimate(batch)


class Driver(DocAgentTrainerMixin, VerlStub):
    """Our trainer mode without models; verl's sampling, updates and transfers are left out."""

    def __init__(self, shape: Shape, folder: Path, estimator: str, verl: VerlPart) -> None:
        self.verl = verl
        self.docagent = cast(
            "Any", SimpleNamespace(run_dir=folder, advantage=AdvantageConfig(), credit=True)
        )
        algorithm = {
            "gamma": 1.0,
            "lam": 1.0,
            "use_kl_in_reward": False,
            "adv_estimator": estimator,
        }
        actor = {"rollout": {}, "model": {}}
        self.config = OmegaConf.create({"algorithm": algorithm, "actor_rollout_ref": actor})
        self._rollout_moe_lb_metrics_accumulator = None
        self.use_critic = self.use_reference_policy = False
        self.global_steps = STEP
        self._estimator = our_estimator(estimator)
        self._reader = TrajectoryReader()
        self._accounts = Accounts(folder, 8)

    def _get_n_gpus_for_throughput(self) -> int:
        return 1

    def _embedder(self, texts: Sequence[str], metrics: dict[str, Any]) -> torch.Tensor:
        return torch.randn(len(texts), 384, generator=torch.Generator().manual_seed(0))


def step(driver: Driver, batch: KVBatchMeta) -> dict[str, Callable[[], Any]]:
    """Return the parts of a step, in their order, as functions by name."""
    metrics: dict[str, Any] = {}
    parts: dict[str, Callable[[], Any]] = {
        "find trajectories": lambda: driver._reader.fetch(batch),
        "advantages": lambda: driver._compute_advantage(batch, metrics),
        "archive": lambda: driver._archive(batch),
    }
    files = getattr(driver, "_files", None)  # absent where the archive writes at once
    written = {} if files is None else {"files of the archive": files.wait}

    def verl_metrics() -> None:
        PPOTrainer._compute_metrics(
            cast("PPOTrainer", driver), batch, metrics, {"step": 1.0}, STEP, 0
        )

    return {**parts, **written, "verl's metrics": verl_metrics}


def measure(shape: Shape, estimator: str) -> list[list[str]]:
    """Fill the queue, run each part of a step, and return one table row for each, with sums."""
    keys = fill(shape, torch.Generator().manual_seed(0))
    tags = [{"is_padding": False} | AT_STEP for _ in keys]
    batch = KVBatchMeta(partition_id="train", keys=keys, tags=tags)
    fields = ["rm_scores", "response_mask"]
    data: TensorDict = tq.kv_batch_get(keys=keys, partition_id="train", select_fields=fields)
    padded = {name: data[name].to_padded_tensor(padding=0) for name in fields}
    verl = VerlPart(padded["rm_scores"], padded["response_mask"], estimator)
    del data, padded
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        driver = Driver(shape, Path(folder), estimator, verl)
        total_seconds = 0.0
        highest_peak = 0.0
        gc.collect()
        before = reset_peak()
        for name, part in step(driver, batch).items():
            reset_peak()
            cpu_start = time.process_time()
            wall_start = time.perf_counter()
            part()
            cpu_seconds = time.process_time() - cpu_start
            wall_seconds = time.perf_counter() - wall_start
            grown = peak() - before
            total_seconds += cpu_seconds
            highest_peak = max(highest_peak, grown)
            rows.append([name, f"{cpu_seconds:.2f}", f"{wall_seconds:.2f}", f"{grown:,.0f}"])
        size = sum(path.stat().st_size for path in Path(folder).rglob("*.jsonl")) / 2**20

    rows.append(["sum", f"{total_seconds:.2f}", "", f"{highest_peak:,.0f}"])
    scale = 4096 / shape.all_rows
    rows.append(
        [
            f"scaled to 4,096 rows (archive here: {size:,.0f} MiB)",
            f"{total_seconds * scale:.1f}",
            "",
            f"{highest_peak * scale:,.0f}",
        ]
    )
    tq.kv_clear(keys=keys, partition_id="train")
    return rows


def reset_peak() -> float:
    """Start measuring the peak memory anew, and return the memory held now, in MiB."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def peak() -> float:
    """Return the peak memory since `reset_peak`, in MiB."""
    return _status("VmHWM")


def _status(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


def main(
    trajectories: Annotated[
        list[int] | None, typer.Option(help="Trajectories of a step; repeatable.")
    ] = None,
    rows: Annotated[int, typer.Option(help="Rows of a trajectory.")] = 8,
    tokens: Annotated[int, typer.Option(help="Positions of a row's response region.")] = 19_000,
    turns: Annotated[int, typer.Option(help="Turns of a row.")] = 6,
    sampled: Annotated[int, typer.Option(help="Sampled tokens of a turn.")] = 180,
    estimator: Annotated[str, typer.Option(help="Name of one of our estimators.")] = "spo",
) -> None:
    """Measure the driver's work on steps of several sizes.

    Example: python -m benchmarks.rollout_driver --trajectories 64 --trajectories 128
    """
    torch.set_num_threads(1)
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="error")
    tq.init(OmegaConf.create({"backend": {"SimpleStorage": {"num_data_storage_units": 1}}}))
    try:
        measure(Shape(8, 2, 64, 2, 8), estimator)  # warms up: some modules are imported on use
        for number in trajectories or [64]:
            shape = Shape(number, rows, tokens, turns, sampled)
            title = f"{number} trajectories of {rows} rows of {tokens:,} tokens, {estimator}"
            columns = ["", "processor, s", "wall, s", "additional peak, MiB"]
            show(title, columns, measure(shape, estimator))
    finally:
        tq.close()
        ray.shutdown()


if __name__ == "__main__":
    typer.run(main)
