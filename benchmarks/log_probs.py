"""Time log-probs of labels without flash-attn: ours in blocks against verl's loop over positions.

python -m benchmarks.log_probs --cpu-time
python -m benchmarks.log_probs --device cuda --tokens 15000
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated

import torch
import typer
import verl.utils.torch_functional as verl_functional
from torch import Tensor

from benchmarks.common import CPU_TIME, best_times, show, single_thread
from docagent_rl.training.attention import log_probs_of_labels

LogProbs = Callable[[Tensor, Tensor], Tensor]


def both_passes(log_probs: LogProbs, logits: Tensor, labels: Tensor) -> tuple[float, float]:
    """Run forward and backward on a copy of the logits.

    Returns:
        the sum of the log-probs, and the sum of the magnitudes of the logits' gradient.
    """
    own = logits.detach().clone().requires_grad_()
    scaled = own * 1.0  # a model's logits are not a leaf of the graph either
    found = log_probs(scaled, labels)
    total = found.sum(dtype=torch.float64)
    total.backward()
    if own.grad is None:
        raise RuntimeError("no gradient")
    return float(total.detach()), float(own.grad.abs().sum(dtype=torch.float64))


def peak_gib(call: Callable[[], object]) -> str:
    """Return the GPU memory in GiB that a call needs beyond what is allocated; "" on a CPU."""
    if not torch.cuda.is_available():
        return ""
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    return f"{(torch.cuda.max_memory_allocated() - before) / 2**30:.2f}"


def main(
    tokens: Annotated[int, typer.Option(min=1, help="Positions.")] = 512,
    vocabulary: Annotated[int, typer.Option(min=2, help="Entries of the vocabulary.")] = 151936,
    device: Annotated[str, typer.Option(help="A device of torch: cpu or cuda.")] = "cpu",
    repeats: Annotated[int, typer.Option(min=1, help="Rounds; the best time counts.")] = 5,
    cpu_time: Annotated[bool, typer.Option("--cpu-time", help=CPU_TIME)] = False,
) -> None:
    """Time forward and backward in float32 and bfloat16."""
    single_thread(cpu_time)
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(vocabulary, (tokens,), generator=generator).to(device)
    rows = []
    for dtype in (torch.float32, torch.bfloat16):
        logits = torch.randn(tokens, vocabulary, generator=generator).to(device, dtype)
        ways = {
            "verl, position by position": verl_functional.logprobs_from_logits_v2,
            "in blocks": log_probs_of_labels,
        }
        calls = {name: partial(both_passes, way, logits, labels) for name, way in ways.items()}
        seconds, results = best_times(calls, repeats, cpu_time)
        slowest = max(seconds.values())
        for name, time in seconds.items():
            log_prob_sum, gradient_sum = results[name]
            precision = str(dtype).removeprefix("torch.")
            rows.append(
                (
                    f"{name}, {precision}",
                    f"{time:.3f}",
                    f"{slowest / time:.1f}",
                    peak_gib(calls[name]) if device == "cuda" else "",
                    f"{log_prob_sum:.1f}",
                    f"{gradient_sum:.1f}",
                )
            )
    columns = ("log-probs", "seconds", "times as fast", "GiB", "sum", "sum of gradients")
    show(f"{tokens} positions, {vocabulary} entries, forward and backward", columns, rows)


if __name__ == "__main__":
    typer.run(main)
