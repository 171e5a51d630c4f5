"""Prompt tokens that a vLLM server computes for trajectories that need more cache than it has.

python -m benchmarks.admission [--trajectories 48] [--room 6]

The trajectories play at a tiny model: groups of eight with the same prompt, lengths that vary, and
a pause between turns, as while a tool runs. They first play all at once, then as `KVAdmission` lets
them. The table shows the prompt tokens that vLLM says it computed, divided by those that were new.
"""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
import time
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from typing import Any

from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.training.serving.kv_admission import KVAdmission, Ticket
from docagent_rl.training.serving.trajectory_client import Prefills

BLOCK = 16
GROUP = 8
PROMPT = 256
NEW = (256, 512)
"""The least and the most tokens that a turn adds."""
TURNS = (3, 9)
REPLY = 8
PAUSE_S = 0.2
VOCABULARY = 1024
LONGEST = PROMPT + TURNS[1] * (NEW[1] + REPLY)


@dataclass(frozen=True, slots=True)
class Played:
    """What a run of all trajectories took.

    Args:
        ratio: prompt tokens that were computed, divided by those that were new.
        at_once: the most trajectories that had room at once.
        seconds: the time from the first request to the last reply.
    """

    ratio: float
    at_once: int
    seconds: float


def open_engine(folder: str, room: int) -> Any:
    """Return vLLM's engine of a tiny text model, with a cache for `room` of the longest
    trajectories.
    """
    # as in recipes/profile/cpu.yaml; on a GPU they have no effect
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    os.environ.setdefault("TORCH_COMPILE_DISABLE", "1")
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=2 * LONGEST,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    import verl  # noqa: F401  the plugin makes vLLM find its platform
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    return AsyncLLM.from_engine_args(
        AsyncEngineArgs(
            model=folder,
            skip_tokenizer_init=True,
            dtype="bfloat16",
            block_size=BLOCK,
            max_model_len=2 * LONGEST,
            max_num_seqs=64,
            num_gpu_blocks_override=room * LONGEST // BLOCK,
            gpu_memory_utilization=0.1,
            enforce_eager=True,
        )
    )


async def play_all(engine: Any, admission: KVAdmission | None, trajectories: int) -> Played:
    """Play trajectories side by side, and return what that took."""
    await engine.reset_prefix_cache()
    played = [
        Trajectory(f"q{number // GROUP}", number % GROUP, 0, "train", {}, "benchmark")
        for number in range(trajectories)
    ]
    at_once = 0

    async def play(number: int, trajectory: Trajectory) -> None:
        nonlocal at_once
        ticket = Ticket(f"{trajectory.uid}_{trajectory.number}", trajectory.uid, PROMPT)
        draw = random.Random(number)
        ids = random.Random(trajectory.uid).choices(range(VOCABULARY), k=PROMPT)
        prefills = Prefills(trajectory)
        for turn in range(draw.randint(*TURNS)):
            if admission is not None:
                await admission.enter(ticket, len(ids))
                admission.record(ticket, len(ids))
                at_once = max(at_once, admission.playing)
            reply, cached = await generate(engine, ids, f"{ticket.trajectory}_{turn}")
            prefills.count(ids, reply, cached=cached)
            if admission is not None:
                admission.record(ticket, len(ids) + len(reply))
            await asyncio.sleep(PAUSE_S)
            ids = [*ids, *reply, *draw.choices(range(VOCABULARY), k=draw.randint(*NEW))]
        if admission is not None:
            admission.leave(ticket.trajectory)

    began = time.monotonic()
    await asyncio.gather(*(play(number, each) for number, each in enumerate(played)))
    new = sum(each.prefill_new for each in played)
    computed = sum(each.prefill_computed for each in played)
    return Played(computed / new, at_once or trajectories, time.monotonic() - began)


async def generate(engine: Any, ids: list[int], name: str) -> tuple[list[int], int]:
    """Return the tokens of a reply, and the number of prompt tokens that were cached."""
    from vllm import SamplingParams

    sampling = SamplingParams(max_tokens=REPLY, min_tokens=REPLY, detokenize=False)
    last = None
    async for output in engine.generate({"prompt_token_ids": ids}, sampling, name):
        last = output
    assert last is not None
    return list(last.outputs[0].token_ids), last.num_cached_tokens or 0


async def compare(trajectories: int, room: int) -> tuple[Played, Played]:
    """Play all trajectories at once, then as they are admitted."""
    with tempfile.TemporaryDirectory() as folder:
        engine = open_engine(folder, room)
        try:
            tokens = engine.vllm_config.cache_config.kv_cache_size_tokens
            free = await play_all(engine, None, trajectories)
            admitted = await play_all(engine, KVAdmission(tokens, LONGEST), trajectories)
        finally:
            engine.shutdown()
    return free, admitted


def parse() -> Namespace:
    """Return the options of the command line."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trajectories", type=int, default=48)
    parser.add_argument("--room", type=int, default=6, help="longest trajectories that fit")
    return parser.parse_args()


def main() -> None:
    """Print the table."""
    options = parse()
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    rows = asyncio.run(compare(options.trajectories, options.room))
    print("| | computed ÷ new | at once | seconds |\n|---|---:|---:|---:|")
    for name, row in zip(("all at once", "admitted"), rows, strict=True):
        print(f"| {name} | {row.ratio:.2f} | {row.at_once} | {row.seconds:.0f} |")


if __name__ == "__main__":
    main()
