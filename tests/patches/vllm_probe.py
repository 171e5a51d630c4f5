"""Send new weights to a vLLM engine on CPU with verl's original code and with the patch; print
JSON.

Run as a script: `python vllm_probe.py FOLDER`; a Qwen, a Llama whose head shares the embedding's
weight, as a layer of its own (Qwen's head is the embedding itself), and what seeds sample. It needs
a process of its own: verl's worker extension asks the kernel to kill it with its parent and vLLM
pins threads.
"""

import asyncio
import json
import os
import sys
import threading
from functools import partial
from pathlib import Path

os.environ |= {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "TORCHDYNAMO_DISABLE": "1",
    "HF_HUB_OFFLINE": "1",
    "DOCAGENT_RL_WEIGHT_TRANSFER_TIMEOUT_S": "20",
}

import torch
import verl  # noqa: F401  (loads the plugin)

from docagent_rl.patches import ALL_PATCHES
from docagent_rl.training import cpu_platform
from docagent_rl.training.patching import install

PROMPT = [5, 9, 2, 7, 7, 1]
EXTENSION = "verl.workers.rollout.vllm_rollout.utils.vLLMColocateWorkerExtension"
PROMPTS = [
    [(7 * place + row) % 61 + 1 for place in range(length)]
    for row, length in enumerate((50, 23, 4))
]
SEEDS = (3, 4, 5)  # for all: beside requests without one vLLM's CPU sampler overlooks them
SIZES = {"vocab_size": 64, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 128}


def build_model(seed: int, *, llama: bool, tied: bool = False, spread: float = 0.2):
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(seed)
    kind, model = (LlamaConfig, LlamaForCausalLM) if llama else (Qwen2Config, Qwen2ForCausalLM)
    tokens = {"eos_token_id": 0, "bos_token_id": 0}
    config = kind(**SIZES, **HEADS, **tokens, tie_word_embeddings=tied, initializer_range=spread)
    return model(config).to(torch.float32).eval()


def open_engine(folder: Path, **options):
    from vllm import LLM

    fixed = {
        "skip_tokenizer_init": True,
        "enforce_eager": True,
        "dtype": "float32",
        "max_model_len": 64,
    }
    return LLM(str(folder), **fixed, **options)


def reading(folder: Path, piece: int):
    """Open an engine that reads `piece` tokens of its prompts per step."""
    return open_engine(
        folder, max_num_seqs=4, max_num_batched_tokens=piece, enable_prefix_caching=False
    )


def sampled(engine) -> list[list[int]]:
    """Return the tokens sampled for every prompt."""
    from vllm import SamplingParams

    options = {"max_tokens": 8, "temperature": 1.0, "detokenize": False, "ignore_eos": True}
    params = [SamplingParams(seed=seed, **options) for seed in SEEDS]
    outputs = engine.generate(
        [{"prompt_token_ids": ids} for ids in PROMPTS], params, use_tqdm=False
    )
    return [list(output.outputs[0].token_ids) for output in outputs]


def seeds(folder: Path) -> dict:
    """Report what seeds sample from prompts in one piece and in several, with the patch and with
    vLLM's own code.
    """
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    build_model(0, llama=True, spread=0.02).save_pretrained(folder)
    engine = reading(folder, 8)
    report: dict = {"whole": sampled(reading(folder, 128)), "pieces": sampled(engine)}
    for name in ("_sample", "_bookkeeping_sync"):  # last, as it stays so
        setattr(GPUModelRunner, name, getattr(GPUModelRunner, name).__wrapped__)
    try:
        sampled(engine)
    except RuntimeError as error:
        report["original_error"] = str(error)
    return report


def shared_keys(folder: Path) -> dict:
    """Report on a Gemma 4 whose last layers have no keys, with vLLM's own code and with the
    patch.
    """
    from transformers import Gemma4ForCausalLM, Gemma4TextConfig
    from vllm.model_executor.models.gemma4 import Gemma4Model

    kinds = ["sliding_attention", "full_attention"] * 2
    sizes = {
        **SIZES,
        **HEADS,
        "num_hidden_layers": 4,
        "layer_types": kinds,
        "num_kv_shared_layers": 2,
    }
    more = {"head_dim": 32, "global_head_dim": 64, "hidden_size_per_layer_input": 32}
    torch.manual_seed(0)
    config = Gemma4TextConfig(**sizes, **more, vocab_size_per_layer_input=64, initializer_range=0.2)
    model = Gemma4ForCausalLM(config).to(torch.float32).eval()
    model.save_pretrained(folder)
    ours, Gemma4Model.load_weights = Gemma4Model.load_weights, Gemma4Model.load_weights.__wrapped__
    report: dict = {"reference": reference_logprobs(model)}
    try:
        open_engine(folder)
    except ValueError as error:
        report["original_error"] = str(error)
    Gemma4Model.load_weights = ours
    return report | {
        "engine": engine_logprobs(open_engine(folder, max_num_seqs=2, max_logprobs=64))
    }


def reference_logprobs(model) -> list[float]:
    with torch.no_grad():
        return model(torch.tensor([PROMPT])).logits[0, -1].log_softmax(-1).tolist()


def engine_logprobs(engine, adapter=None) -> list[float]:
    from vllm import SamplingParams

    params = SamplingParams(max_tokens=1, temperature=1.0, logprobs=64, detokenize=False)
    engine.reset_prefix_cache()
    prompts = [{"prompt_token_ids": PROMPT}]
    (output,) = engine.generate(prompts, params, use_tqdm=False, lora_request=adapter)
    found = output.outputs[0].logprobs[0]
    return [found[token].logprob for token in range(64)]


def send(engine, weights, receive) -> dict[str, str | None]:
    """Send `weights` while the engine's worker runs `receive`; return the error of each side."""
    from verl.workers.rollout.vllm_rollout.bucketed_weight_transfer import BucketedWeightSender

    (handle,) = engine.collective_rpc("_get_zmq_handle")
    errors: dict[str, str | None] = {"sender": None, "receiver": None}

    def noting(side, call) -> None:
        try:
            call()
        except Exception as error:  # told to the caller
            errors[side] = f"{type(error).__name__}: {error}"

    sender = BucketedWeightSender(handle, bucket_size_mb=1, use_shm=True)
    sending = partial(asyncio.run, sender.async_send_weights(iter(weights)))
    thread = threading.Thread(target=noting, args=("sender", sending))
    thread.start()
    noting("receiver", receive)
    thread.join()
    return errors


def rpc(engine, **options):
    kwargs = {"use_shm": True} | options
    return lambda: engine.collective_rpc("update_weights_from_ipc", kwargs=kwargs)


def adapters(folder: Path, tied: bool) -> dict:
    """Report on an engine that gets another base, then an adapter that adds nothing, then an
    adapter that does.
    """
    from peft import LoraConfig, get_peft_model
    from peft.utils.save_and_load import get_peft_model_state_dict
    from verl.utils.fsdp_utils import replace_lora_wrapper
    from verl.workers.rollout.vllm_rollout import utils
    from vllm.lora.request import LoRARequest

    first, second = (build_model(seed, llama=tied, tied=tied) for seed in (0, 1))
    first.save_pretrained(folder)
    lora = {"enable_lora": True, "max_lora_rank": 8, "max_loras": 1}
    engine = open_engine(
        folder, worker_extension_cls=EXTENSION, max_num_seqs=2, max_logprobs=64, **lora
    )
    adapted = get_peft_model(second, LoraConfig(r=8, lora_alpha=16, target_modules="all-linear"))
    config = adapted.peft_config["default"]
    below = {k: v for k, v in adapted.base_model.model.state_dict().items() if "lora_" not in k}
    base = [
        (replace_lora_wrapper(k.replace(".base_layer", ""), config), v) for k, v in below.items()
    ]
    options = {"peft_config": config.to_dict()}
    request = LoRARequest(utils.VLLM_LORA_NAME, utils.VLLM_LORA_INT_ID, utils.VLLM_LORA_PATH)
    report = {
        "base_errors": send(engine, base, rpc(engine, **options)),
        "base": reference_logprobs(adapted),
    }
    report["engine base"] = engine_logprobs(engine)
    for name in ("zero", "trained"):
        weights = list(get_peft_model_state_dict(adapted).items())
        report[f"{name}_errors"] = send(
            engine, weights, rpc(engine, base_sync_done=True, **options)
        )
        report[name] = reference_logprobs(adapted)
        report[f"engine {name}"] = engine_logprobs(engine, request)
        with torch.no_grad():
            for parameter in (p for key, p in adapted.named_parameters() if "lora_" in key):
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return report


def updates(folder: Path, tied: bool) -> dict:
    """Report on an engine whose weights are replaced by others, and then by the first again."""
    from verl.workers.rollout.vllm_rollout.utils import vLLMColocateWorkerExtension

    first, second = (build_model(seed, llama=tied, tied=tied) for seed in (0, 1))
    first.save_pretrained(folder)
    engine = open_engine(folder, worker_extension_cls=EXTENSION, max_num_seqs=2, max_logprobs=64)
    original = vLLMColocateWorkerExtension.update_weights_from_ipc.__wrapped__
    state = list(second.state_dict().items())  # of a tied model with both names, as verl sends it

    report = {
        "before": engine_logprobs(engine),
        "first": reference_logprobs(first),
        "second": reference_logprobs(second),
        "patched_errors": send(engine, state, rpc(engine)),
        "after": engine_logprobs(engine),
    }
    report["again_errors"] = send(engine, list(first.state_dict().items()), rpc(engine))
    report["again"] = engine_logprobs(engine)
    # last, as it may leave the model broken
    report["original_errors"] = send(
        engine, state, lambda: engine.collective_rpc(lambda worker: original(worker, use_shm=True))
    )
    return report


def main(folder: Path) -> dict:
    models = {name: updates(folder / name, name == "tied") for name in ("tied", "untied")}
    lora = {f"{name} lora": adapters(folder / f"{name}_lora", name == "tied") for name in models}
    return (
        models | lora | {"gemma": shared_keys(folder / "gemma"), "seeds": seeds(folder / "seeds")}
    )


if __name__ == "__main__":
    os.environ["VERL_PLATFORM"] = "cpu"
    cpu_platform.register_cpu_platform()
    install(ALL_PATCHES)
    print("REPORT " + json.dumps(main(Path(sys.argv[1]))))
