"""Time turn-level GAE against verl's GAE, which loops over positions."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import torch
import typer
from torch import Tensor
from verl.trainer.ppo.core_algos import compute_gae_advantage_return

from benchmarks.common import CPU_TIME, best_times, show, single_thread
from docagent_rl.advantages.gae import token_gae, turn_gae
from docagent_rl.advantages.inputs import AdvantageInputs, Discounts

VERL = "verl, token by token"
Pair = tuple[Tensor, Tensor]


def trajectories(count: int, tokens: int, turns: int, sampled: int, seed: int) -> dict[str, Tensor]:
    """Draw a batch of `count` rows of `tokens` positions.

    A row has `turns` turns of about `sampled` sampled tokens, with observations between them; the
    last token of a turn has its reward. Values and rewards are float32, masks and indices int64, as
    in the trainer.
    """
    generator = torch.Generator().manual_seed(seed)
    low, high = max(1, sampled * 5 // 6), sampled * 7 // 6 + 1
    longest = tokens // turns
    if high > longest:
        raise typer.BadParameter(
            f"{turns} turns of about {sampled} sampled tokens do not fit into {tokens} positions"
        )
    lengths = torch.randint(low, high, (count, turns), generator=generator)
    starts = (
        torch.arange(turns) * longest
        + (torch.rand(count, turns, generator=generator) * (longest - lengths)).long()
    )
    positions = torch.arange(tokens)
    turn_index = torch.full((count, tokens), -1)
    rewards = torch.zeros(count, tokens)
    for turn in range(turns):
        begin, length = starts[:, turn, None], lengths[:, turn, None]
        turn_index[(positions >= begin) & (positions < begin + length)] = turn
        rewards[torch.arange(count), (begin + length - 1).squeeze(1)] = torch.rand(
            count, generator=generator
        )
    return {
        "token_rewards": rewards,
        "values": torch.randn(count, tokens, generator=generator),
        "turn_index": turn_index,
        "mask": (turn_index >= 0).long(),
    }


def checked(batch: dict[str, Tensor], discounts: Discounts) -> AdvantageInputs:
    """Check the batch and return it as an estimator's input; each row is a trajectory of its own.

    Eight trajectories make a group.
    """
    trajectory = torch.arange(len(batch["mask"]))
    return AdvantageInputs(
        **batch,
        trajectory=trajectory,
        row=torch.zeros_like(trajectory),
        group=trajectory // 8,
        discounts=discounts,
    )


def verl_gae(batch: dict[str, Tensor]) -> Pair:
    """Compute advantages and returns with the function that verl's trainer calls."""
    rewards, values, mask = batch["token_rewards"], batch["values"], batch["mask"]
    advantages, returns = compute_gae_advantage_return(rewards, values, mask, gamma=1.0, lam=1.0)
    return advantages * mask, returns * mask


def ours(batch: dict[str, Tensor], estimator: object, discounts: Discounts) -> Pair:
    """Compute advantages and returns from the tensors of the batch, including the checks."""
    result = estimator(checked(batch, discounts))
    return result.advantages, result.returns


def prepared(inputs: AdvantageInputs, estimator: object) -> Pair:
    """Compute advantages and returns from inputs that are already checked."""
    result = estimator(inputs)
    return result.advantages, result.returns


def main(
    count: Annotated[int, typer.Option("--trajectories", help="Rows of the batch.")] = 512,
    tokens: Annotated[int, typer.Option(help="Positions of a row.")] = 19_000,
    turns: Annotated[int, typer.Option(help="Turns of a row.")] = 6,
    sampled: Annotated[int, typer.Option(help="Approximate sampled tokens of a turn.")] = 180,
    repeats: Annotated[int, typer.Option(help="Rounds; the best time counts.")] = 5,
    cpu: Annotated[bool, typer.Option("--cpu-time", help=CPU_TIME)] = False,
    seed: Annotated[int, typer.Option(help="Seed of lengths, rewards and values.")] = 0,
) -> None:
    """Time turn-level GAE and verl's own GAE on the same batch.

    With all discounts and lambdas 1, both compute the same numbers; the table shows their largest
    difference.

    Example: python -m benchmarks.turn_gae --trajectories 128
    """
    single_thread(cpu)
    batch = trajectories(count, tokens, turns, sampled, seed)
    plain, alden = Discounts(), Discounts(gamma_turn=0.9)
    bi_level = Discounts(gamma_turn=0.9, lam_turn=0.95, gamma_token=0.99, lam_token=0.95)
    ready = checked(batch, plain)
    calls = {
        VERL: partial(verl_gae, batch),
        "token_gae": partial(ours, batch, token_gae, plain),
        "turn_gae, all 1": partial(ours, batch, turn_gae, plain),
        "turn_gae, ALDEN (gamma_turn 0.9)": partial(ours, batch, turn_gae, alden),
        "turn_gae, four parameters below 1": partial(ours, batch, turn_gae, bi_level),
        "token_gae, batch already checked": partial(prepared, ready, token_gae),
        "turn_gae, batch already checked": partial(prepared, ready, turn_gae),
    }
    seconds, results = best_times(calls, repeats, cpu)
    rows = []
    for name, spent in seconds.items():
        difference = ""
        computes_the_same = name != VERL and "ALDEN" not in name and "four" not in name
        if computes_the_same:
            pairs = zip(results[name], results[VERL], strict=True)
            largest = max(float((ours - verls).abs().max()) for ours, verls in pairs)
            difference = f"{largest:.1e}"
        rows.append([name, f"{spent:.3f}", f"{seconds[VERL] / spent:.1f}", difference])
    title = (
        f"{count} trajectories of {tokens:,} tokens, {turns} turns of about {sampled} sampled ones"
    )
    show(title, ["", "seconds", "times as fast", "largest difference"], rows)


if __name__ == "__main__":
    typer.run(main)
