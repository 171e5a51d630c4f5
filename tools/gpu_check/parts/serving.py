"""Measure how fast a rollout server reads prompts and samples.

vLLM serves a language model with the widths of Qwen2.5-VL-7B and random weights in bfloat16, with
CUDA graphs and without a prefix cache. Prompts are token ids, without images. The server samples
one token for each prompt, and then many: the first call gives the operations per second while
prompts are read; the time of the second beyond it gives the bytes per second while tokens are
sampled, of weights, keys and values. `recipes budget --time --measured` uses both.
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch._dynamo

from docagent_rl.checks.budget import Server
from docagent_rl.checks.model_sizes import sizes_of
from docagent_rl.checks.passes import BFLOAT16, Model
from docagent_rl.checks.rates import RateName
from docagent_rl.checks.step_time import StepSizes, prompt_operations, sampling_weights
from tools.gpu_check.check import Machine, Result, expect, passed
from tools.gpu_check.models import SEVEN, SMALL

WEIGHTS = 0.45
"""The largest share of the GPU's memory for weights: with less memory, there are fewer layers."""
GIB = 2**30
REPEATS = 2
"""Number of times that each call is made; the shortest time counts."""


@dataclass(frozen=True)
class Load:
    """The requests of a measurement.

    Attributes:
        requests: requests at the same time.
        prompt: tokens of a prompt.
        sampled: tokens that are sampled for each prompt.
    """

    requests: int
    prompt: int
    sampled: int


ON_GPU = Load(requests=16, prompt=2048, sampled=129)
ON_CPU = Load(requests=4, prompt=64, sampled=17)


def run(machine: Machine, folder: Path) -> Result:
    """Run the check that the module describes."""
    on_gpu = machine.gpu is not None
    load = ON_GPU if on_gpu else ON_CPU
    config = _config(layers_that_fit(machine.memory_gib) if on_gpu else 0)
    config.save_pretrained(folder)
    engine = _engine(machine, folder, load)
    cache = engine.llm_engine.vllm_config.cache_config
    room = cache.num_gpu_blocks * cache.block_size
    needed = load.requests * (load.prompt + load.sampled)
    expect(room >= needed, f"the cache has room for {room} tokens, {needed} are needed")
    _seconds(engine, load, load.sampled)  # compiles
    one = min(_seconds(engine, load, 1) for _ in range(REPEATS))
    many = min(_seconds(engine, load, load.sampled) for _ in range(REPEATS))
    from docagent_rl.training.settings.models import on_meta

    rates = measured_rates(sizes_of(on_meta(config)), load, one, many)
    tokens = load.requests * load.prompt
    text = (
        f"{config.num_hidden_layers} layers: {tokens / one:,.0f} tokens a second are read, and "
        f"{load.requests} sampled in {1000 * (many - one) / (load.sampled - 1):.1f} ms"
    )
    return passed(text, rates=rates, reading_s=one, both_s=many, layers=config.num_hidden_layers)


def measured_rates(model: Model, load: Load, one: float, many: float) -> dict[RateName, float]:
    """Return operations per second of reading, and bytes per second of sampling.

    The second is left out where it cannot be told apart from noise. `one` and `many` are the
    seconds with one token and with `load.sampled` tokens.
    """
    whole = StepSizes(row=load.prompt, image=0, sampled=0)
    operations = load.requests * load.prompt * prompt_operations(model, whole)
    found = {RateName.PREFILL: operations / one}
    half = Server(model, share=1, gpus=1, longest=load.prompt + load.sampled // 2).trajectory
    each = sampling_weights(model) + load.requests * half
    if many > one:
        found[RateName.DECODING] = (load.sampled - 1) * each / (many - one)
    return found


def layers_that_fit(memory_gib: float) -> int:
    """Return the number of layers whose weights take at most `WEIGHTS` of a GPU's memory."""
    from docagent_rl.checks.model_sizes import known_sizes

    model = known_sizes("Qwen/Qwen2.5-VL-7B-Instruct")
    assert model is not None
    room = WEIGHTS * memory_gib * GIB - BFLOAT16 * (model.embeddings + model.head)
    return max(1, min(model.layers, int(room / (BFLOAT16 * model.layer))))


def _config(layers: int) -> Any:
    """Return the configuration of a language model; 0 layers: the small one."""
    from transformers import Qwen2Config

    sizes = SEVEN if layers else SMALL
    return Qwen2Config(
        vocab_size=sizes["vocabulary"],
        num_hidden_layers=layers or sizes["layers"],
        max_position_embeddings=8192,
        tie_word_embeddings=False,
        architectures=["Qwen2ForCausalLM"],
        **{name: value for name, value in sizes["text"].items() if "position" not in name},
    )


def _engine(machine: Machine, folder: Path, load: Load) -> Any:
    """Return vLLM in this process, with random weights that it makes itself."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    graphs: dict[str, Any] = {"compilation_config": {"cudagraph_capture_sizes": [1, load.requests]}}
    if machine.gpu is None:
        # as in recipes/profile/cpu.yaml; torch is imported, so it no longer reads its variable
        os.environ["VLLM_CPU_KVCACHE_SPACE"] = "1"
        torch._dynamo.config.disable = True
        graphs = {"enforce_eager": True}
    import verl  # noqa: F401  the plugin makes vLLM find its platform
    from vllm import LLM

    return LLM(
        model=str(folder),
        load_format="dummy",
        skip_tokenizer_init=True,
        dtype="bfloat16",
        max_model_len=load.prompt + load.sampled,
        max_num_seqs=load.requests,
        gpu_memory_utilization=0.85 if machine.gpu else 0.1,
        enable_prefix_caching=False,
        **graphs,
    )


def _seconds(engine: Any, load: Load, sampled: int) -> float:
    """Sample `sampled` tokens for every prompt, and return the seconds that it took."""
    from vllm import SamplingParams

    draw = random.Random(0)
    prompts = [
        {"prompt_token_ids": draw.choices(range(1, 1000), k=load.prompt)}
        for _ in range(load.requests)
    ]
    asked = SamplingParams(max_tokens=sampled, ignore_eos=True, detokenize=False)
    began = time.perf_counter()
    replies = engine.generate(prompts, asked, use_tqdm=False)
    seconds = time.perf_counter() - began
    lengths = {len(reply.outputs[0].token_ids) for reply in replies}
    expect(lengths == {sampled}, f"{sampled} tokens were asked for, the replies have {lengths}")
    return seconds
