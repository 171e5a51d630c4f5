"""Measure how long finished rows hold up the event loop of an agent worker.

    python -m benchmarks.event_loop

All trajectories of a worker wait while its event loop computes. Trajectories that end together are
finished as the worker does it, in a thread, and as verl does it, on the loop. Then texts are cut to
a number of tokens, as when trajectories of MM-Doc-R1 end together: with one tokenisation of each
text in a thread, and with one for each size that is tried, in a thread and on the loop. A
callback's time is the processor time of the loop's thread, so other processes do not matter.
"""

from __future__ import annotations

import asyncio
import gc
import time
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import torch
import transfer_queue
import typer
from PIL import Image
from transformers import Qwen2_5_VLModel
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics

from benchmarks.common import show
from docagent_rl.documents import PageRef
from docagent_rl.envs.images import ImageRef
from docagent_rl.envs.token_budget import TokenCounter, cut_middle
from docagent_rl.envs.token_offsets import TokenizerCounter
from docagent_rl.lab.tiny.shapes import build_processor, tiny_config
from docagent_rl.lab.tiny.tokenizer import build_tokenizer
from docagent_rl.rollout.images import EncodedImage
from docagent_rl.training.agent_loop.output import IMAGES, DocAgentLoopOutput, RowImages
from docagent_rl.training.agent_loop.worker import DocAgentLoopWorker

_SIDE = 1008
"""Pixels of a page's side: 1,296 tokens."""


class VerlsWorker(DocAgentLoopWorker):
    """The worker as it is, but for rows, which it finishes on the event loop as verl does."""

    def _finish(self, rows: Any) -> None:
        pass


def make_worker(kind: type[DocAgentLoopWorker]) -> Any:
    """Return a worker with a processor, and without servers."""
    worker = object.__new__(kind)
    processor = build_processor(build_tokenizer([]))
    processor.config = tiny_config(processor.tokenizer)
    for name in ("get_rope_index", "get_vision_position_ids"):
        setattr(processor, name, types.MethodType(getattr(Qwen2_5_VLModel, name), processor))
    worker.processor = processor
    return worker


def make_row(processor: Any, tokens: int, images: int, side: int = _SIDE) -> DocAgentLoopOutput:
    """Return a row of a trajectory: images and text in turns, of which half a turn is sampled."""
    size = (side, side)
    ref = ImageRef(PageRef("doc", 1), "hash", (0, 0, *size), size)
    page = EncodedImage.make(ref, Image.new("RGB", size, "white"), processor.image_processor)
    shown = [page] * images
    placeholders = [processor.image_token_id] * page.num_tokens
    text = max(2, (tokens - images * page.num_tokens) // (images + 1))
    response = []
    mask = []
    for _ in shown:
        response += [3] * text + placeholders
        mask += [1] * text + [0] * len(placeholders)
    response += [3] * text
    mask += [1] * text
    return DocAgentLoopOutput(
        prompt_ids=[1, 2],
        response_ids=response,
        response_mask=mask,
        response_logprobs=[-0.5] * len(mask),
        turn_index=[0 if each else -1 for each in mask],
        token_rewards=[0.0] * len(mask),
        reward_score=1.0,
        multi_modal_data={IMAGES: RowImages(tuple(shown))},
        metrics=AgentLoopMetrics(),
        extra_fields={"reward_extra_info": {}},
    )


@contextmanager
def timed_callbacks() -> Iterator[list[float]]:
    """Yield a list to which each callback of an event loop adds its seconds of processor time."""
    seconds: list[float] = []
    run = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        run(handle)
        seconds.append(time.thread_time() - began)

    asyncio.Handle._run = timed
    try:
        yield seconds
    finally:
        asyncio.Handle._run = run


async def finish_together(worker: Any, rows: list[DocAgentLoopOutput]) -> None:
    """Finish rows of trajectories that end at the same moment."""

    async def finish(number: int, row: DocAgentLoopOutput) -> None:
        await worker._agent_loop_postprocess(
            [row], False, uid=str(number), session_id=0, global_steps=1
        )

    await asyncio.gather(*(finish(number, row) for number, row in enumerate(rows)))


def measure(kind: type[DocAgentLoopWorker], count: int, tokens: int, images: int) -> list[str]:
    """Return a line of the table: the longest callback, all callbacks, and the time in total."""
    worker = make_worker(kind)
    first, *rows = [make_row(worker.processor, tokens, images) for _ in range(count + 1)]
    asyncio.run(finish_together(worker, [first]))
    # as the worker does
    gc.collect()
    gc.freeze()
    with timed_callbacks() as seconds:
        began = time.perf_counter()
        asyncio.run(finish_together(worker, rows))
        total = time.perf_counter() - began
    name = "on the event loop, as verl does" if kind is VerlsWorker else "in a thread"
    return [name, f"{1000 * max(seconds):.1f}", f"{sum(seconds):.2f}", f"{total:.2f}"]


async def cut_together(count: TokenCounter, texts: list[str], limit: int, *, threads: bool) -> None:
    """Cut the middle of all texts at the same moment, each to `limit` tokens."""

    async def cut(text: str) -> str:
        if threads:
            return await asyncio.to_thread(cut_middle, text, limit, count)
        return cut_middle(text, limit, count)

    await asyncio.gather(*map(cut, texts))


def measure_cuts(texts: int, tokens: int, limit: int) -> Iterator[list[str]]:
    """Yield lines of the table: the longest callback, all callbacks, processor time of a text."""
    fast = TokenizerCounter(build_tokenizer([]).backend_tokenizer)

    def counted(text: str) -> int:
        return fast(text)

    sentences = (f"The revenue of year {n} rose by {n % 97}.5 %." for n in range(tokens))
    text = " ".join(sentences)[: 3 * tokens]
    ways = (
        ("each size is counted, on the event loop", counted, False),
        ("each size is counted, in a thread", counted, True),
        ("one tokenisation, in a thread", fast, True),
    )
    for name, count, threads in ways:
        with timed_callbacks() as seconds:
            began = time.process_time()
            asyncio.run(cut_together(count, [text] * texts, limit, threads=threads))
            each = (time.process_time() - began) / texts
        yield [name, f"{1000 * max(seconds):.1f}", f"{sum(seconds):.2f}", f"{1000 * each:.1f}"]


async def _nowhere(*_: Any, **__: Any) -> None:
    """Take the place of the queue, whose client writes to a socket."""


async def _no_score(*_: Any, **__: Any) -> None:
    """Take the place of verl's reward workers and teachers."""


def main(
    count: Annotated[int, typer.Option(help="Trajectories that end together.")] = 256,
    tokens: Annotated[int, typer.Option(help="Tokens of a row.")] = 19_000,
    images: Annotated[int, typer.Option(help="Images of a row, of 1,296 tokens each.")] = 10,
    limit: Annotated[int, typer.Option(help="Tokens to which texts are cut.")] = 4096,
) -> None:
    """Finish rows of many trajectories at once, and cut texts of as many."""
    torch.set_num_threads(1)
    for kind in (DocAgentLoopWorker, VerlsWorker):
        kind._compute_score = _no_score
        kind._compute_teacher_logprobs = _no_score
    transfer_queue.async_kv_batch_put = _nowhere
    lines = [measure(kind, count, tokens, images) for kind in (VerlsWorker, DocAgentLoopWorker)]
    show(
        f"{count} rows of {tokens:,} tokens with {images} images",
        ("rows are finished", "longest callback, ms", "all callbacks, s", "in total, s"),
        lines,
    )
    show(
        f"{count} texts of some {tokens // 2:,} tokens, cut to {limit:,}",
        ("texts are cut", "longest callback, ms", "all callbacks, s", "processor ms a text"),
        list(measure_cuts(count, tokens // 2, limit)),
    )


if __name__ == "__main__":
    typer.run(main)
