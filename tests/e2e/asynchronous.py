"""An asynchronous run with a value model and a judge that fails in two ways; its search server
dies, then its vLLM engine, and the run resumes.
"""

import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path

from docagent_rl.samples.parquet import read_parquet
from tests.chat_server import ChatServer, threaded
from tests.e2e.conftest import FAMILY, Run, add_model
from tests.e2e.deaths import Resumed, die_and_resume
from tests.e2e.search_server import SearchServer

STEPS = 3
OUTAGE_S = 3.0
"""Outage of the search server, which then takes further time to start."""


def refused(workspace: Path) -> set[str]:
    """Return the questions on which the judge fails: every fourth that is trained on, in order."""
    return {r.question for r in read_parquet(workspace / "data" / "train.parquet")[::4]}


def judge(questions: Iterable[str], host: str = "127.0.0.1") -> AbstractContextManager[ChatServer]:
    """Serve a judge that replies with nonsense to some of these questions, with 503 to the others,
    and with yes to all other questions.
    """
    refused = sorted(questions)

    def reply(request: dict) -> bytes | int | str:
        prompt = request["messages"][-1]["content"]
        broken = [number for number, question in enumerate(refused) if question in prompt]
        if not broken:
            return "<judge>true</judge>"
        return 503 if broken[0] % 2 else b"<html>not what you asked for</html>"

    return threaded(ChatServer(compute=reply, host=host))


def play(folder: Path, workspace: Path, python: Path) -> Resumed:
    """Kill the search server in the first step, and the engine after its checkpoint, while
    trajectories of later steps are in progress; finish the run.

    The first driver starts as a user's does, every import included; Ray's workers have theirs done.
    """
    add_model(workspace, "vrag_rl", python, FAMILY)
    with (
        judge(refused(workspace)) as server,
        SearchServer(folder / "search", workspace, OUTAGE_S) as search,
    ):
        overrides = (
            "docagent.retriever.backend=http",
            f"docagent.retriever.service.url={search.url}",
            "docagent.retriever.service.timeout_s=100",
            "docagent.retriever.deadline_s=600",
            "trainer.v1.trainer_mode=docagent_colocate_async",
            "algorithm.adv_estimator=gae",
            "critic.enable=true",
            "critic.optim.lr=1e-3",
            "data.shuffle=false",
            "docagent.judge.kind=openai",
            f"docagent.judge.base_url={server.url}",
            "docagent.judge.model=judge",
            "docagent.judge.attempts=1",
            "docagent.judge.deadline_s=20",
            f"trainer.total_training_steps={STEPS}",
            "trainer.val_before_train=false",
            "trainer.test_freq=-1",
            "trainer.save_freq=1",
            f"+ray_kwargs.ray_init.runtime_env.py_executable={python}",
        )
        run = Run(folder, workspace, overrides, Path(sys.executable))
        saved = run.run_dir / "checkpoints" / "global_step_1" / "manifest.json"

        def is_saved() -> bool:
            if "Training from scratch" in run.logged:  # checks before the run are over
                search.break_once()
            return saved.is_file()

        return die_and_resume(run, is_saved, python)
