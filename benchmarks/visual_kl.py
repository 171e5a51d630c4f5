"""Measure memory and time of the exact KL at visual positions, tile by tile and with whole logits.

Each method runs forward and backward in a process of its own. Memory is the peak of that process
(on CUDA, of the allocator) above what the inputs take; it includes the gradients of hidden states
and head.

    python -m benchmarks.visual_kl
    python -m benchmarks.visual_kl --device cuda --tokens 15000 --hidden 3584 --dtype bfloat16
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import psutil
import torch
import typer
from rich.console import Console
from rich.table import Table
from torch import Tensor

from docagent_rl.losses.exact_kl import TOKEN_CHUNK, VOCABULARY_CHUNK, Head, exact_kl

MEMORY_GOAL, TIME_GOAL = 0.1, 1.5
CLEAR_REFS = Path("/proc/self/clear_refs")


class Way(StrEnum):
    """A method of computing the KL."""

    WHOLE = "whole logits"
    TILES = "tiles"


class Device(StrEnum):
    CPU = "cpu"
    CUDA = "cuda"


class Precision(StrEnum):
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


@dataclass(frozen=True)
class Sizes:
    """The sizes and settings of a measurement; see the options of `compare`."""

    tokens: int
    vocabulary: int
    hidden: int
    device: Device
    dtype: Precision
    threads: int
    repeats: int
    token_chunk: int
    vocabulary_chunk: int


@dataclass(frozen=True)
class Measured:
    """The measurements of one method."""

    seconds: float
    """Wall-clock seconds of the fastest repeat."""
    processor_seconds: float
    """Processor seconds of the fastest repeat over all threads; other work changes them little."""
    peak_mib: float
    """Peak memory above what the inputs take."""
    kl: float
    """Mean KL over positions."""
    gradient: float
    """Norm of the gradient of the head."""


app = typer.Typer(add_completion=False)


@app.command()
def compare(
    tokens: Annotated[int, typer.Option(help="Visual positions.")] = 1024,
    vocabulary: Annotated[int, typer.Option(help="Entries of the vocabulary.")] = 152_064,
    hidden: Annotated[int, typer.Option(help="Width of the hidden states.")] = 256,
    device: Annotated[Device, typer.Option(help="The device to run on.")] = Device.CPU,
    dtype: Annotated[
        Precision, typer.Option(help="Precision of hidden states and heads.")
    ] = Precision.FLOAT32,
    threads: Annotated[int, typer.Option(help="Threads on the CPU.")] = 1,
    repeats: Annotated[int, typer.Option(help="Repeats; the fastest counts.")] = 2,
    token_chunk: Annotated[int, typer.Option(help="Positions of a tile.")] = TOKEN_CHUNK,
    vocabulary_chunk: Annotated[
        int, typer.Option(help="Vocabulary entries of a tile.")
    ] = VOCABULARY_CHUNK,
    only: Annotated[Way | None, typer.Option(hidden=True)] = None,
) -> None:
    """Print how both methods compare; exit with an error if their results differ.

    Example: python -m benchmarks.visual_kl --tokens 512 --hidden 128
    """
    sizes = Sizes(
        tokens, vocabulary, hidden, device, dtype, threads, repeats, token_chunk, vocabulary_chunk
    )
    if only is not None:
        print(json.dumps(asdict(measure(only, sizes))))
        return
    found = {way: _in_a_process(way, sizes) for way in Way}
    console = Console()
    console.print(_table(sizes, found))
    whole, tiles = found[Way.WHOLE], found[Way.TILES]
    memory, duration = tiles.peak_mib / whole.peak_mib, tiles.seconds / whole.seconds
    busy = tiles.processor_seconds / whole.processor_seconds
    console.print(f"memory {memory:.3f} of whole logits (goal {MEMORY_GOAL})")
    console.print(
        f"time {duration:.2f}, processor time {busy:.2f} of whole logits (goal {TIME_GOAL})"
    )
    # in bfloat16, the whole logits are rounded to 8 bits, those of the tiles are not
    tolerance = 1e-3 if dtype is Precision.FLOAT32 else 0.2
    for name in ("kl", "gradient"):
        ours, theirs = getattr(tiles, name), getattr(whole, name)
        if abs(ours - theirs) > tolerance * abs(theirs):
            console.print(f"the results differ: {name} {ours} by tiles, {theirs} by whole logits")
            raise typer.Exit(1)


def _in_a_process(way: Way, sizes: Sizes) -> Measured:
    options = [f"--{name.replace('_', '-')}={value}" for name, value in asdict(sizes).items()]
    command = [sys.executable, "-m", "benchmarks.visual_kl", *options, f"--only={way.value}"]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return Measured(**json.loads(output.splitlines()[-1]))


def measure(way: Way, sizes: Sizes) -> Measured:
    """Measure a method in this process: run forward and backward `sizes.repeats` times."""
    torch.set_num_threads(sizes.threads)
    generator = torch.Generator().manual_seed(0)
    kind = getattr(torch, sizes.dtype)

    def normal(rows: int, scale: float) -> Tensor:
        drawn = scale * torch.randn(rows, sizes.hidden, generator=generator)
        return drawn.to(device=sizes.device.value, dtype=kind)

    ref_hidden = normal(sizes.tokens, 1.0)
    ref_head = Head(normal(sizes.vocabulary, sizes.hidden**-0.5))
    hidden = (ref_hidden + normal(sizes.tokens, 0.1)).requires_grad_()
    head = Head(ref_head.weight.clone().requires_grad_())
    before = _held(sizes.device)
    wall_times = []
    cpu_times = []
    kl = gradient = 0.0
    for _ in range(sizes.repeats):
        hidden.grad = head.weight.grad = None
        _wait(sizes.device)
        wall_start = time.perf_counter()
        cpu_start = time.process_time()
        value = _kl(way, sizes, hidden, head, ref_hidden, ref_head).mean()
        value.backward()
        _wait(sizes.device)
        wall_times.append(time.perf_counter() - wall_start)
        cpu_times.append(time.process_time() - cpu_start)
        kl = value.item()
        gradient = head.weight.grad.float().norm().item()
        del value  # else the graph would be alive in the next repeat, and count in the peak
    peak_mib = (_peak(sizes.device) - before) / 2**20
    return Measured(min(wall_times), min(cpu_times), peak_mib, kl, gradient)


def _kl(
    way: Way, sizes: Sizes, hidden: Tensor, head: Head, ref_hidden: Tensor, ref_head: Head
) -> Tensor:
    if way is Way.TILES:
        chunks = {"token_chunk": sizes.token_chunk, "vocabulary_chunk": sizes.vocabulary_chunk}
        return exact_kl(hidden, head, ref_hidden, ref_head, **chunks)
    own = (hidden @ head.weight.t()).float().log_softmax(1)
    ref = (ref_hidden @ ref_head.weight.t()).float().log_softmax(1)
    return (own.exp() * (own - ref)).sum(1)


def _wait(device: Device) -> None:
    if device is Device.CUDA:
        torch.cuda.synchronize()


def _held(device: Device) -> int:
    """Return the bytes held now, and reset the peak that `_peak` returns."""
    if device is Device.CUDA:
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    if CLEAR_REFS.exists():
        CLEAR_REFS.write_text("5")  # Linux: resets the peak to the memory that is resident now
    return psutil.Process().memory_info().rss


def _peak(device: Device) -> int:
    if device is Device.CUDA:
        return torch.cuda.max_memory_allocated()
    if CLEAR_REFS.exists():
        lines = CLEAR_REFS.with_name("status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _table(sizes: Sizes, found: dict[Way, Measured]) -> Table:
    title = (
        f"{sizes.tokens} positions, {sizes.vocabulary} entries, width {sizes.hidden}, "
        f"{sizes.dtype.value}, "
        f"{sizes.device.value}"
    )
    table = Table(
        "", "peak MiB", "seconds", "processor seconds", "mean KL", "|gradient of head|", title=title
    )
    for way, each in found.items():
        numbers = f"{each.peak_mib:.0f}", f"{each.seconds:.2f}", f"{each.processor_seconds:.2f}"
        table.add_row(way.value, *numbers, f"{each.kl:.6f}", f"{each.gradient:.6f}")
    return table


if __name__ == "__main__":
    app()
