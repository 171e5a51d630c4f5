"""Specifications of encoders: those of the table, those of files and folders, and wrong ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from docagent_rl.errors import UserError
from docagent_rl.retrieval.encoders.models import DEFAULT, MODELS, known_model
from docagent_rl.retrieval.encoders.naming import SPEC_FILE, named_spec
from docagent_rl.retrieval.encoders.opening import open_encoder
from docagent_rl.retrieval.encoders.spec import EncoderSpec, Family
from docagent_rl.retrieval.encoders.table import BEGIN, END, with_table

IMAGES = {"content": "image"}
PAGE = Path(__file__).parents[3] / "docs" / "retrieval" / "models.md"


def test_the_page_shows_the_table_of_today():
    """python -m docagent_rl.retrieval.encoders.table docs/retrieval/models.md."""
    page = PAGE.read_text()
    assert page == with_table(page)
    assert len([line for line in page.splitlines() if line.startswith("| `")]) == 2 * len(MODELS)
    for without_marks in ("", BEGIN, f"{END}{BEGIN}"):
        with pytest.raises(UserError):
            with_table(without_marks)


@pytest.mark.parametrize("name", MODELS)
def test_a_specification_survives_an_index_and_keeps_text_in_prompts(name):
    spec = known_model(name).spec
    assert named_spec(name) == spec
    assert EncoderSpec.read(spec.model_dump(mode="json")) == spec
    assert (spec.query_prompt or "{}").count("{}") == 1
    if spec.family is Family.QWEN2_VL:
        assert "<|image_pad|>" in (spec.page_prompt or "")
        assert spec.query_image == ("<|image_pad|>" in (spec.query_prompt or ""))


@pytest.mark.slow
def test_the_default_is_the_embedded_one(minilm):
    assert open_encoder(known_model(DEFAULT).spec).fingerprint == minilm.fingerprint
    with pytest.raises(UserError, match=r"encoder=minilmm.* minilm"):
        known_model("minilmm")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"family": "colbertt"}, r"index\.family"),
        ({"content": "image", "family": "colbert"}, "image"),
        ({"content": "text", "family": "colqwen2"}, "text"),
        ({"query_prompt": "{} and {}"}, r"index\.query_prompt"),
        ({"page_prompt": "no place"}, "page_prompt"),
        ({"page_tokens": 64, "overlap": 40}, "overlap"),
        ({"min_pixels": 10, "max_pixels": 5}, "min_pixels.*max_pixels"),
        ({"query_image": True}, "query_image"),
        ({**IMAGES, "family": "qwen2_vl"}, "query_prompt.*page_prompt"),
        ({**IMAGES, "family": "qwen2_vl", "query_prompt": "{}", "page_prompt": "x"}, r"<\|image_pad\|>"),
        ({**IMAGES, "family": "colpali", "dims": 64}, "dims"),
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
    assert (spec.family, spec.model, spec.max_pixels) == (Family.COLQWEN2, str(tmp_path), 50176)
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"family": "sentence_transformer", "model": "me/mine"}))
    assert named_spec(str(file)).model == "me/mine"


def test_what_is_no_specification_is_one_error(tmp_path):
    file = tmp_path / "mine.yaml"
    with pytest.raises(UserError, match=r"mine\.yaml"):
        named_spec(str(file))
    for content, named in (("[1]", ""), ("a: [", ""), ("family: colqwen4", "family"), ("speed: 3", "speed")):
        file.write_text(content)
        with pytest.raises(UserError, match=rf"(?s)mine\.yaml.*{named}"):
            named_spec(str(file))
