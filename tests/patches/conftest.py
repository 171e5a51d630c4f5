import json
import os
import subprocess
from pathlib import Path

import pytest
import torch
import verl  # noqa: F401  (whose plugin installs the patches)
from transformers import Qwen2_5_VLConfig, Qwen2Config

from docagent_rl.training.hardware import is_cpu_platform

PROBE_TIMEOUT_S = 900


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def cpu_only() -> None:
    if not is_cpu_platform():
        pytest.skip("for the platform cpu")


SMALL = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
}
TOKENS = {
    "image_token_id": 60,
    "video_token_id": 61,
    "vision_start_token_id": 62,
    "vision_end_token_id": 63,
}


@pytest.fixture
def qwen2_config() -> Qwen2Config:
    return Qwen2Config(**SMALL, tie_word_embeddings=False)


@pytest.fixture
def qwen2_5_vl_config() -> Qwen2_5_VLConfig:
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}
    special = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), 0)
    more = {
        "layer_types": ["full_attention"],
        "max_position_embeddings": 64,
        "rope_parameters": rope,
    }
    vision = {
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_heads": 2,
        "out_hidden_size": 32,
    }
    vision |= {"window_size": 56, "fullatt_block_indexes": [1]}
    return Qwen2_5_VLConfig(text_config=SMALL | special | more, vision_config=vision, **TOKENS)


@pytest.fixture(scope="session")
def vllm_report(warm_python, tmp_path_factory) -> dict:
    """Return the report of `vllm_probe.py`."""
    pytest.importorskip("vllm")
    command = [
        warm_python,
        Path(__file__).with_name("vllm_probe.py"),
        tmp_path_factory.mktemp("vllm"),
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=environment,
        timeout=PROBE_TIMEOUT_S,
        check=False,
    )
    reports = [line for line in done.stdout.splitlines() if line.startswith("REPORT ")]
    assert reports, done.stderr[-4000:]
    return json.loads(reports[0].removeprefix("REPORT "))
