"""Measure the bytes of a trajectory: its row, its position ids in several forms, its requests.

    python -m benchmarks.row_bytes

The row is one of Qwen2.5-VL, with an image after each turn. Times are processor seconds for all
rows of a step: once to make position ids, and once to read them, as each pass does.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Any

import torch
import typer

from benchmarks.common import best_times, show, single_thread
from benchmarks.event_loop import make_row, make_worker
from benchmarks.row_traffic import size_of
from docagent_rl.rollout.patches import GRIDS
from docagent_rl.training.agent_loop.output import DocAgentLoopOutput
from docagent_rl.training.agent_loop.worker import DocAgentLoopWorker
from docagent_rl.training.compact_positions import compact, expand_positions
from docagent_rl.training.serving.prompts import PromptSender, PromptStore
from docagent_rl.training.trainer.passes import Pass

SIDE = 756
"""Pixels of an image's side: 729 tokens."""
PLACEHOLDER = 151_655
"""Qwen2.5-VL's token for images; those of texts are below it."""


class WholePositions(DocAgentLoopWorker):
    """A worker that makes position ids as verl does."""

    def _compute_position_ids(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        return super(DocAgentLoopWorker, self)._compute_position_ids(*args, **kwargs)


def fields_of(row: DocAgentLoopOutput, positions: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the tensors of a row in the queue."""
    row.finish()
    fields = {name: each for name, each in row.as_dict().items() if isinstance(each, torch.Tensor)}
    return fields | {
        "input_ids": torch.cat([fields["prompts"], fields["responses"]]),
        "loss_mask": fields["response_mask"],
        "position_ids": positions,
    }


def row_table(whole: Mapping[str, torch.Tensor], ours: Mapping[str, torch.Tensor]) -> list[Any]:
    """Return lines with the bytes of a row by field: as verl stores it, as we do, and as a pass
    without a loss fetches both.
    """
    fetched = {name: size_of(each) for name, each in ours.items()}
    fetched |= dict.fromkeys(Pass.INFER.value & fetched.keys(), 0)
    # verl fetches all fields
    lines = [
        [name, size_of(each), size_of(ours[name]), size_of(each), fetched[name]]
        for name, each in whole.items()
    ]
    sums = ["sum", *(sum(line[n] for line in lines) for n in range(1, 5))]
    return [[str(name), *(f"{size:,}" for size in sizes)] for name, *sizes in [*lines, sums]]


def derived(worker: Any, row: DocAgentLoopOutput) -> torch.Tensor:
    """Return the position ids of a row as verl computes them."""
    ids = torch.tensor(row.prompt_ids + row.response_ids)
    inputs = {GRIDS: worker._inputs_of(row, ids)[GRIDS], "mm_token_type_ids": torch.zeros(1)}
    return worker._compute_position_ids(ids[None], torch.ones_like(ids)[None], inputs)[0]


def position_table(worker: Any, row: DocAgentLoopOutput, rows: int) -> list[list[str]]:
    """Return lines with the bytes of position ids, and the seconds to make and to read them."""
    whole = derived(worker, row)
    derive = partial(derived, worker, row)
    short, stream = whole.to(torch.int16), compact(whole)
    forms = {
        "int64": (whole.nbytes, derive, whole.clone),
        "int16": (short.nbytes, lambda: derive().to(torch.int16), short.long),
        "derived in each pass": (0, lambda: None, derive),
        "runs, compressed": (
            stream.nbytes,
            lambda: compact(derive()),
            partial(expand_positions, stream),
        ),
    }
    for name, (_, _, read) in forms.items():
        if not torch.equal(read(), whole):
            raise RuntimeError(f"{name}: position ids differ")
    calls = {f"{name} {n}": each[n] for name, each in forms.items() for n in (1, 2)}
    seconds, _ = best_times(calls, repeats=7, cpu=True)
    return [
        [name, f"{each[0]:,}", *(f"{rows * seconds[f'{name} {n}']:.2f}" for n in (1, 2))]
        for name, each in forms.items()
    ]


def requests(tokens: int, images: int, seed: int = 1) -> Iterator[tuple[list[int], list[int]]]:
    """Yield prompt and reply of each turn: an image follows each reply, and text has random ids."""
    drawn = random.Random(seed)
    image = (SIDE // 28) ** 2
    text = max(2, (tokens - images * image) // (images + 1))
    prompt: list[int] = []
    for _ in range(images):
        prompt = [*prompt, *(drawn.randrange(PLACEHOLDER) for _ in range(text))]
        reply = [drawn.randrange(PLACEHOLDER) for _ in range(text)]
        yield prompt, reply
        prompt = [*prompt, *reply, *[PLACEHOLDER] * image]


def request_table(tokens: int, images: int) -> list[list[str]]:
    """Return lines with the bytes of the prompts that a trajectory sends, first and last and all.

    Raises:
        RuntimeError: a server would have got other tokens.
    """
    sender = PromptSender("uid_0_1")
    store = PromptStore()
    sizes = []
    for prompt, reply in requests(tokens, images):
        sent = pickle.dumps(sender.shorten(prompt, "server"), protocol=5)
        found = store.find(pickle.loads(sent))
        if found is None or found.tolist() != prompt:
            raise RuntimeError("the server has other tokens")
        store.keep("uid_0_1", found)
        store.add_reply("uid_0_1", found, reply)
        sender.record(prompt, reply, "server")
        sizes.append((len(pickle.dumps(prompt, protocol=5)), len(sent)))
    ways = zip(("all ids", "what the server lacks"), zip(*sizes, strict=True), strict=True)
    return [[name, *(f"{n:,}" for n in (each[0], each[-1], sum(each)))] for name, each in ways]


def main(
    tokens: Annotated[int, typer.Option(help="Tokens of the row.")] = 10_240,
    images: Annotated[int, typer.Option(help="Turns, each with an image.")] = 13,
    rows: Annotated[int, typer.Option(help="Rows of a step.")] = 160,
) -> None:
    """Print the bytes of a row, of its position ids and of its requests."""
    single_thread(cpu=True)
    worker = make_worker(WholePositions)
    row = make_row(worker.processor, tokens, images, side=SIDE)
    whole = derived(worker, row)
    stored, ours = (fields_of(row, each) for each in (whole, compact(whole)))
    columns = ["field", "verl stores", "we store", "a pass of verl", "a pass of ours"]
    show(f"A row of {whole.shape[-1]:,} tokens, bytes", columns, row_table(stored, ours))
    columns = ["position ids", "bytes a row", "make, s", "read, s"]
    show(f"{rows} rows", columns, position_table(worker, row, rows))
    columns = ["prompts", "first turn", "last turn", f"all {images} turns"]
    show("Requests of a trajectory, bytes", columns, request_table(tokens, images))


if __name__ == "__main__":
    typer.run(main)
