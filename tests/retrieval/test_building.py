from __future__ import annotations

import pytest

from docagent_rl.commands.serve import _config
from docagent_rl.errors import UserError
from docagent_rl.retrieval.building import Encoding, build_vectors
from tests.retrieval.vectors.conftest import files_of


@pytest.mark.slow
def test_a_cluster_builds_the_index_that_one_process_builds_and_is_let_go(ray_head, store, tmp_path):
    import ray

    far = build_vectors(store, tmp_path / "far", "minilm", encoding=Encoding(ray=ray_head, encoders=1))
    assert not ray.is_initialized()
    assert far == build_vectors(store, tmp_path / "near", "minilm")
    assert far.new == far.pages > 0
    assert files_of(tmp_path / "far") == files_of(tmp_path / "near")
    # a server takes the kind of the index that it is given
    assert _config(None, None, tmp_path / "near").kind == "dense"


@pytest.mark.slow
def test_a_cluster_that_is_not_there_is_an_error_of_the_user(store, tmp_path):
    with pytest.raises(UserError, match=r"127\.0\.0\.1:1"):
        build_vectors(store, tmp_path / "far", "minilm", encoding=Encoding(ray="127.0.0.1:1"))
    assert not (tmp_path / "far").exists()
