from __future__ import annotations

import resource
import shutil
from contextlib import nullcontext
from types import SimpleNamespace

import datasets
import numpy
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from omegaconf import OmegaConf
from ray._private.utils import validate_socket_filepath
from safetensors.numpy import save_file

from docagent_rl.base.errors import UserError
from docagent_rl.checks import machine
from docagent_rl.checks.data import check_name
from docagent_rl.checks.machine import check_bucket, check_folders, check_machine, check_model, largest_weight

BUCKET = 64
DEEP = "/tmp/" + "x" * 70


@pytest.fixture
def config(tmp_path):
    def make(run_dir=tmp_path / "run", **ray_init):
        engine = {"checkpoint_engine": {"update_weights_bucket_megabytes": BUCKET}}
        return OmegaConf.create(
            {
                "docagent": {"run_dir": str(run_dir)},
                "trainer": {"default_local_dir": str(tmp_path / "checkpoints")},
                "ray_kwargs": {"ray_init": ray_init},
                "actor_rollout_ref": {"rollout": engine},
            }
        )

    return make


def test_folders_that_can_be_written_stay_as_they_are_and_one_under_a_file_is_refused(config, tmp_path):
    check_folders(config(tmp_path / "a" / "b"))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"docagent\.run_dir=.*file/run .*file is a file"):
        check_folders(config(tmp_path / "file" / "run"))


def test_a_full_disk_is_refused(config, tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(UserError, match=r"run .*too large"):
            check_folders(config())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a b", "a,b", "a=b", "{a}", "a:b", "a[b]", "a*b", "a::b"])
def test_names_that_verl_would_take_for_patterns_are_refused(tmp_path, monkeypatch, name):
    """Held against what its data loader makes of them."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    for folder, rows in ((tmp_path / name, 2), (tmp_path / "a-b", 3)):
        folder.mkdir(exist_ok=True)
        pq.write_table(pa.table({"a": list(range(rows))}), folder / "train.parquet")
    file = tmp_path / name / "train.parquet"
    try:
        read = datasets.load_dataset("parquet", data_files=str(file), cache_dir=str(tmp_path / "cache"))
        by_name = len(read["train"]) == 2
    except (ValueError, FileNotFoundError):
        by_name = False
    with nullcontext() if by_name else pytest.raises(UserError, match=r"data\.train_files: "):
        check_name("train_files", file)


def test_a_folder_too_deep_for_sockets_is_refused(config, monkeypatch):
    check_machine(config())
    monkeypatch.setenv("RAY_TMPDIR", DEEP)
    with pytest.raises(UserError, match=r"107: .*RAY_TMPDIR"):
        check_machine(config())
    check_machine(config(_temp_dir="/tmp/ray"))
    # a Ray that runs has its folder already
    check_machine(config(address="10.0.0.1:6379"))
    monkeypatch.setenv("RAY_TMPDIR", "/tmp")
    monkeypatch.setenv("VLLM_RPC_BASE_PATH", DEEP)
    with pytest.raises(UserError, match=r"VLLM_RPC_BASE_PATH"):
        check_machine(config())


def test_rays_longest_socket_is_that_of_the_formula():
    fits = "/" + "x" * (machine.SOCKET_BYTES - 1)
    validate_socket_filepath(fits)
    with pytest.raises(OSError, match="107"):
        validate_socket_filepath(fits + "x")


@pytest.mark.parametrize(
    ("megabytes", "cpu", "files", "refused"),
    [
        (BUCKET - 1, True, 256, r"/dev/shm .*63 MB.*update_weights_bucket_megabytes=64"),
        (BUCKET, True, 256, None),
        (0, False, resource.RLIM_INFINITY, None),
        (BUCKET, True, 64, r" 64 .* 256 "),
    ],
)
def test_shared_memory_on_the_cpu_and_open_files_have_to_do(
    config, monkeypatch, megabytes, cpu, files, refused
):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=megabytes << 20))
    monkeypatch.setattr(machine, "is_cpu_platform", lambda: cpu)
    monkeypatch.setattr(resource, "getrlimit", lambda what: (64, files))
    with pytest.raises(UserError, match=refused) if refused else nullcontext():
        check_machine(config())


@pytest.fixture
def model(tmp_path, monkeypatch):
    """Two files; the embedding has 1.5 million numbers, 6 MB in float32."""
    monkeypatch.setattr(machine, "is_cpu_platform", lambda: True)
    folder = tmp_path / "model"
    folder.mkdir()
    save_file({"embed": numpy.zeros((3 << 9, 1 << 10), "float16")}, folder / "model-1.safetensors")
    save_file({"head": numpy.zeros((4, 2), "float16")}, folder / "model-2.safetensors")
    (folder / "config.json").write_text("{}")
    return folder


def weights(model, bucket, lora_rank=0, **actor):
    rollout = {"checkpoint_engine": {"update_weights_bucket_megabytes": bucket}}
    policy = {"path": str(model), "lora_rank": lora_rank}
    section = {"model": policy, "rollout": rollout, "actor": {"fsdp_config": actor}}
    return OmegaConf.create({"actor_rollout_ref": section})


def test_a_weight_that_does_not_fit_is_refused(model):
    assert largest_weight(model) == ("embed", 3 << 19)
    check_bucket(weights(model, 6))
    check_bucket(weights(model, 3, model_dtype="bf16"))
    for given in (weights(model, 5), weights(model, 3, model_dtype="fp32")):
        with pytest.raises(UserError, match="embed: 6 MB"):
            check_bucket(given)
    # before anything is loaded
    with pytest.raises(UserError, match=r"megabytes=5 .*embed: 6 MB"):
        check_model(weights(model, 5), model.parent)


def test_what_another_way_carries_is_not_checked(model, tmp_path, monkeypatch):
    check_bucket(weights("Qwen/Qwen2.5-VL-7B-Instruct", 1))
    check_bucket(weights(model, 1, lora_rank=8))
    # without safetensors it is left to verl
    assert largest_weight(tmp_path) == ("", 0)
    check_bucket(weights(tmp_path, 1))
    monkeypatch.setattr(machine, "is_cpu_platform", lambda: False)
    check_bucket(weights(model, 1))
