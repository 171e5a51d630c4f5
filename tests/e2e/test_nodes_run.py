"""Two Ray nodes, and a third one that does not see the store."""

import pytest
from omegaconf import OmegaConf

from tests.e2e.lora import STEPS


@pytest.fixture(scope="module")
def nodes(runs):
    return runs.result("nodes")


def test_what_the_driver_was_told_reaches_every_node(nodes):
    saved = OmegaConf.load(nodes.run.run_dir / "hydra" / "config.yaml")
    assert saved.docagent.workspace == str(nodes.run.workspace)
    assert saved.docagent.judge.base_url == nodes.url
    # by the driver and by each node before the run, at least
    assert nodes.asked >= 3


def test_no_trajectory_is_lost_between_the_nodes(nodes):
    for step in range(1, STEPS + 1):
        metrics = nodes.run.metrics(step)
        counts = [metrics[f"docagent/trajectories/{name}"] for name in ("asked", "trained")]
        assert [len(nodes.run.trajectories(step)), *counts] == [16] * 3
        assert metrics["actor/grad_norm"] > 0


@pytest.mark.parametrize("role", ["actor", "critic"])
def test_the_checkpoint_holds_both_ranks(nodes, role):
    folder = nodes.run.checkpoint(STEPS) / role
    ranks = {path.name for path in folder.glob("model_world_size_2_rank_*.pt")}
    assert ranks == {f"model_world_size_2_rank_{rank}.pt" for rank in range(2)}


def test_critic_and_divergence_are_of_both_ranks(nodes):
    for step in range(1, STEPS + 1):
        assert nodes.run.metrics(step)["critic/vf_loss"] > 0
    # the first update begins at the reference
    first, last = (nodes.run.metrics(step)["actor/kl_observation"] for step in (1, STEPS))
    assert 0 <= first < 1e-9 < 1e-3 < last


def test_the_node_that_does_not_see_the_store_is_named(nodes):
    if nodes.blind is None:
        pytest.skip("nothing can be hidden from a process here")
    code, said = nodes.blind
    assert code == 1, said[-4000:]
    lines = said.splitlines()
    (first,) = [n for n, line in enumerate(lines) if line.startswith("docagent-rl: ")]
    assert lines[first] == "docagent-rl: the check of 3 nodes found problems:"
    assert f": docagent.store={nodes.run.workspace}/store: " in lines[first + 1]
    assert "is not a document store" in lines[first + 1]
    assert "Every node must see the same files under the same paths" in lines[first + 2]
    assert "vLLMHttpServer" not in said
