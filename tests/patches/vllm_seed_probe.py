"""Ask a vLLM engine on CPU with seeds, prompts in one piece and in several; print JSON.

Run as a script: `python vllm_seed_probe.py FOLDER`. It needs a process of its own, as `vllm_probe.py` does.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ |= {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "TORCHDYNAMO_DISABLE": "1",
    "HF_HUB_OFFLINE": "1",
}

import torch
import verl  # noqa: F401  (loads the plugin)

from docagent_rl.patches import ALL_PATCHES
from docagent_rl.training.patching import install
from docagent_rl.training.platforms import cpu

PROMPTS = [[(7 * place + row) % 61 + 1 for place in range(length)] for row, length in enumerate((50, 23, 4))]
SEEDS = (3, 4, 5)  # for all: beside requests without one vLLM's CPU sampler overlooks them


def build_model(folder: Path) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=128,
        initializer_range=0.02,
        eos_token_id=0,
        bos_token_id=0,
    )
    LlamaForCausalLM(config).save_pretrained(folder)


def asked(folder: Path, piece: int) -> list[list[int]]:
    """Tokens sampled for every prompt by an engine that reads `piece` tokens a step."""
    from vllm import LLM, SamplingParams

    engine = LLM(
        str(folder),
        skip_tokenizer_init=True,
        enforce_eager=True,
        dtype="float32",
        max_model_len=64,
        max_num_seqs=4,
        max_num_batched_tokens=piece,
        enable_prefix_caching=False,
    )
    params = [
        SamplingParams(max_tokens=8, temperature=1.0, seed=seed, detokenize=False, ignore_eos=True)
        for seed in SEEDS
    ]
    outputs = engine.generate([{"prompt_token_ids": ids} for ids in PROMPTS], params, use_tqdm=False)
    return [list(output.outputs[0].token_ids) for output in outputs]


def main(folder: Path) -> dict:
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    build_model(folder)
    report: dict = {"whole": asked(folder, 128), "pieces": asked(folder, 8)}
    GPUModelRunner._sample = GPUModelRunner._sample.__wrapped__
    GPUModelRunner._bookkeeping_sync = GPUModelRunner._bookkeeping_sync.__wrapped__
    try:
        report["original"] = asked(folder, 8)
    except RuntimeError as error:
        report["original_error"] = str(error)
    return report


if __name__ == "__main__":
    os.environ["VERL_PLATFORM"] = "cpu"
    cpu.register()
    install(ALL_PATCHES)
    print("REPORT " + json.dumps(main(Path(sys.argv[1]))))
