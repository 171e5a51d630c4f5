from __future__ import annotations

import resource
import shutil
from contextlib import nullcontext
from types import SimpleNamespace

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from omegaconf import OmegaConf
from ray._private.utils import validate_socket_filepath

from docagent_rl.base.errors import UserError
from docagent_rl.checks import surroundings
from docagent_rl.checks.surroundings import check_folders, check_machine, check_names

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
        check_names([("train_files", file)])


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
    fits = "/" + "x" * (surroundings.SOCKET_BYTES - 1)
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
    monkeypatch.setattr(surroundings, "is_cpu_platform", lambda: cpu)
    monkeypatch.setattr(resource, "getrlimit", lambda what: (64, files))
    with pytest.raises(UserError, match=refused) if refused else nullcontext():
        check_machine(config())
