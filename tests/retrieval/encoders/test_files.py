from __future__ import annotations

import hashlib
import json
import os
import shutil

import pytest

from docagent_rl.errors import UserError
from docagent_rl.retrieval.encoders import files
from docagent_rl.retrieval.encoders.files import base_folder, digest, model_folder


@pytest.fixture
def model(tmp_path):
    """A folder with the files of a model."""
    folder = tmp_path / "model"
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "config.json").write_text(json.dumps({"hidden_size": 8, "_name_or_path": "/here"}))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "modules.json").write_text(json.dumps([{"path": ""}, {"path": "1_Pooling"}]))
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode": "mean"}')
    return folder


def test_a_copy_on_another_machine_has_the_same_digest(model, tmp_path):
    copy = tmp_path / "elsewhere" / "copy"
    shutil.copytree(model, copy, copy_function=shutil.copy)
    (copy / "config.json").write_text(json.dumps({"_name_or_path": "/there", "hidden_size": 8}, indent=2))
    # what a download may have brought along, and decides nothing
    (copy / "onnx").mkdir()
    for name in ("README.md", "onnx/model.onnx", "vocab.txt", "pytorch_model.bin"):
        (copy / name).write_text("something else")
    assert digest(copy) == digest(model)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("model.safetensors", "weightz"),
        ("config.json", '{"hidden_size": 9}'),
        ("tokenizer.json", "{ }"),
        ("1_Pooling/config.json", '{"pooling_mode": "cls"}'),
        ("preprocessor_config.json", '{"size": 3}'),
    ],
)
def test_what_decides_over_vectors_changes_the_digest(model, name, content):
    before = digest(model)
    (model / name).write_text(content)
    assert digest(model) != before


def test_a_file_of_the_same_size_and_time_is_told_apart(model):
    """Weights that are replaced under the same name, as `mv` does it."""
    path = model / "model.safetensors"
    before, status = digest(model), path.stat()
    other = model / "other"
    other.write_bytes(b"WEIGHTS")
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.rename(path)
    assert digest(model) != before


def test_large_files_of_the_hubs_cache_are_named_by_their_digest(model, monkeypatch):
    """Its links are followed, and their targets not read again."""
    before, path = digest(model), model / "model.safetensors"
    blob = model.parent / "blobs" / hashlib.sha256(path.read_bytes()).hexdigest()
    blob.parent.mkdir()
    path.rename(blob)
    path.symlink_to(blob)
    (model / "tokenizer.json").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(files, "_content_digest", lambda path, *_: pytest.fail(f"{path} was read"))
        with_link = digest(model)
    (model / "tokenizer.json").write_text("{}")
    assert digest(model) == before != with_link


def test_an_adapter_is_what_it_and_its_base_are(model, tmp_path):
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_model.safetensors").write_bytes(b"lora")

    def settings(base):
        content = json.dumps({"r": 4, "base_model_name_or_path": str(base)})
        (adapter / "adapter_config.json").write_text(content)

    settings(model)
    before = digest(adapter)
    assert base_folder(adapter) == model
    shutil.copytree(model, adapter / "base")
    settings("base")
    assert base_folder(adapter) == adapter / "base"
    assert digest(adapter) == before
    (adapter / "base" / "model.safetensors").write_bytes(b"another")
    assert digest(adapter) != before
    settings(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"adapter.*nowhere"):
        digest(adapter)


@pytest.mark.parametrize(
    "name", ["wheel:no_such_package", "wheel:json", "/no/such/folder", "./no_such", "nobody/no-such-model"]
)
def test_a_model_that_is_not_there_is_named(name):
    with pytest.raises(UserError, match=rf"encoder\.model={name}"):
        model_folder(name, named="encoder.model")


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [("modules.json", '[{"path": "../other"}]', r"\.\./other"), ("config.json", "{", r"config\.json")],
)
def test_damaged_settings_and_modules_outside_of_the_folder_are_named(model, name, content, named):
    (model / name).write_text(content)
    with pytest.raises(UserError, match=named):
        digest(model)
