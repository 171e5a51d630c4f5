from __future__ import annotations

import pytest

from docagent_rl.commands.serve import _config
from docagent_rl.errors import UserError
from docagent_rl.retrieval.building import Encoding, build_vectors


def files(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith(".lock")
    }


@pytest.mark.slow
def test_a_cluster_builds_the_index_that_one_process_builds_and_is_let_go(world, tmp_path):
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 3, "include_dashboard": False})
    try:
        encoding = Encoding(ray=cluster.address, encoders=2)
        far = build_vectors(world.store, tmp_path / "far", "minilm", encoding=encoding)
        assert not ray.is_initialized()
    finally:
        cluster.shutdown()
    assert far == build_vectors(world.store, tmp_path / "near", "minilm")
    assert far.new == far.pages > 0
    assert files(tmp_path / "far") == files(tmp_path / "near")
    # a server takes the kind of the index that it is given
    assert _config(None, None, tmp_path / "near").kind == "dense"


def test_a_cluster_that_is_not_there_is_an_error_of_the_user(world, tmp_path):
    with pytest.raises(UserError, match=r"no Ray cluster at '127\.0\.0\.1:1'"):
        build_vectors(world.store, tmp_path / "far", "minilm", encoding=Encoding(ray="127.0.0.1:1"))
    assert not (tmp_path / "far").exists()
