"""A run on two Ray nodes, configured by variables of its driver alone, with LoRA whose weights are
merged for the servers, a critic and a KL on observations. Then a third node joins that does not see
the store, and the same command reports that.
"""

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ray.util import get_node_ip_address

from tests.cluster import Cluster, can_hide
from tests.e2e.asynchronous import judge
from tests.e2e.conftest import FAMILY, PATIENCE_S, WORKSPACE, Run, add_model, kill
from tests.e2e.custom import SHORT
from tests.e2e.lora import LORA, STEPS

OVERRIDES = (
    *SHORT,
    *LORA,
    "actor_rollout_ref.model.lora.merge=true",
    "algorithm.adv_estimator=turn_gae",
    "critic.enable=true",
    "critic.optim.lr=1e-3",
    "docagent.kl.observation.coef=1e-3",
    f"trainer.total_training_steps={STEPS}",
    f"trainer.save_freq={STEPS}",
    "trainer.nnodes=2",
    # the judge finds everything right: groups may be equal
    "actor_rollout_ref.actor.entropy_coeff=0.01",
    "actor_rollout_ref.rollout.agent.num_workers=2",  # verl puts one on each node
    "docagent.judge.kind=openai",
    "docagent.judge.model=judge",
)


@dataclass(frozen=True)
class Nodes:
    """The run on two nodes, and the one with the third node.

    Args:
        run: over two nodes, done.
        url: of its judge.
        asked: how often that was asked.
        blind: status and words of the run with the third node; `None` where nothing can be hidden.
    """

    run: Run
    url: str
    asked: int
    blind: tuple[int, str] | None


def play(folder: Path, workspace: Path, python: Path) -> Nodes:
    """Start the nodes, run, let the third node join, and run again."""
    add_model(workspace, "vrag_rl", python, FAMILY)
    with (
        tempfile.TemporaryDirectory(prefix="n", ignore_cleanup_errors=True) as short,
        Cluster(Path(short), python) as cluster,
        judge((), get_node_ip_address()) as server,
    ):
        cluster.add()
        variables = {
            **cluster.environment,
            WORKSPACE: str(workspace),
            "DOCAGENT_JUDGE_URL": server.url,
        }
        run = Run(folder, workspace, OVERRIDES, python, variables=variables)
        run.finish()
        if not can_hide():
            return Nodes(run, server.url, len(server.requests), None)
        during = len(server.requests)
        cluster.add(hidden=workspace / "store", gpus=0, python=Path(sys.executable))
        blind = Run(folder / "blind", workspace, OVERRIDES, python, variables=variables)
        process = blind.start()
        try:
            code = process.wait(PATIENCE_S)
        finally:
            kill(process)
        return Nodes(run, server.url, during, (code, blind.said))
