"""PPO with a value model, and a judge that fails for some questions."""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from docagent_rl.rollout.trajectory import read_trajectories
from tests.e2e.conftest import Run


def refuses(question: str) -> bool:
    """Whether the judge breaks down on a question: about one in four."""
    return hashlib.sha256(question.encode()).digest()[0] % 4 == 0


class Judge(BaseHTTPRequestHandler):
    """A chat-completions endpoint: right when the verdict is asked for at all, broken for some questions."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = body["messages"][-1]["content"]
        if any(refuses(q) and q in prompt for q in self.server.questions):
            self.send_error(500)
            return
        message = {"role": "assistant", "content": "<judge>true</judge>"}
        reply = {"id": "1", "object": "chat.completion", "created": 0, "model": "judge",
                 "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}  # fmt: skip
        data = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def judge(workspace):
    from docagent_rl.data.parquet import read_parquet

    server = ThreadingHTTPServer(("127.0.0.1", 0), Judge)
    files = [workspace / "data" / f"{split}.parquet" for split in ("train", "val")]
    server.questions = [r.question for file in files for r in read_parquet(file)]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()


@pytest.fixture(scope="module")
def run(tmp_path_factory, workspace, judge):
    overrides = (
        "algorithm.adv_estimator=gae",
        "critic.enable=true",
        "critic.optim.lr=1e-3",
        "docagent.judge.kind=openai",
        f"docagent.judge.base_url={judge}",
        "docagent.judge.model=judge",
        "docagent.judge.attempts=1",
        "docagent.judge.deadline_s=5",
        "trainer.total_training_steps=2",
        "trainer.val_before_train=false",
        "trainer.test_freq=-1",
        "trainer.save_freq=-1",
    )
    run = Run(tmp_path_factory.mktemp("critic"), workspace, overrides)
    run.finish()
    return run


def metrics(run, step):
    return json.loads((run.run_dir / "metrics" / f"{step}.json").read_text())


def test_the_value_model_trains(run):
    for step in (1, 2):
        assert metrics(run, step)["critic/grad_norm"] > 0
        assert metrics(run, step)["critic/vf_loss"] >= 0
    assert metrics(run, 1)["critic/values/mean"] != metrics(run, 2)["critic/values/mean"]


def test_sessions_whose_judge_fails_are_masked_and_counted(run):
    masked = 0
    for step in (1, 2):
        sessions = list(read_trajectories(run.run_dir / "trajectories" / f"{step}.jsonl"))
        failed = [t for t in sessions if t.masked]
        assert metrics(run, step)["docagent/masked_trajectories"] == len(failed)
        masked += len(failed)
        for t in failed:
            assert t.end == "infrastructure"
            assert "judge" in t.error
            assert t.attempts == 2
            assert t.reward == 0
            assert refuses(t.record["question"])
        for t in sessions:
            if not t.masked and t.end == "answered" and t.metrics["reward/outcome"]:
                assert not refuses(t.record["question"])
    assert masked > 0
