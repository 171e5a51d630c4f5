from __future__ import annotations

import json

import pytest

from docagent_rl.errors import UserError
from docagent_rl.retrieval.encoders.models import MODELS
from docagent_rl.retrieval.encoders.naming import SPEC_FILE, named_spec
from docagent_rl.retrieval.encoders.spec import Family


def test_names_of_the_table_are_its_specifications():
    assert all(named_spec(name) == known.spec for name, known in MODELS.items())


def test_a_checkpoint_brings_its_own(tmp_path):
    (tmp_path / SPEC_FILE).write_text("family: colqwen2\ncontent: image\nmax_pixels: 50176\n")
    spec = named_spec(str(tmp_path))
    assert (spec.family, spec.model, spec.max_pixels) == (Family.COLQWEN2, str(tmp_path), 50176)


def test_a_file_names_another_model(tmp_path):
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"family": "sentence_transformer", "model": "me/mine"}))
    assert named_spec(str(file)).model == "me/mine"


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (None, "--model=.*mine.yaml.* minilm"),
        ("[1]", "mine.yaml"),
        ("a: [", "mine.yaml"),
        ("family: colqwen4", "mine.yaml.*family"),
        ("family: colbert\nspeed: 3", "speed"),
    ],
)
def test_what_is_no_specification_is_one_error(tmp_path, content, named):
    file = tmp_path / "mine.yaml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UserError, match=named):
        named_spec(str(file))
