"""PPO with a value model, and a judge that fails for some questions."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from docagent_rl.data.parquet import read_parquet
from tests.e2e.conftest import Run


def refused(workspace: Path) -> set[str]:
    """The questions on which the judge breaks down: every fourth that is trained on, in order."""
    return {r.question for r in read_parquet(workspace / "data" / "train.parquet")[::4]}


class Judge(BaseHTTPRequestHandler):
    """A chat-completions endpoint: right when the verdict is asked for at all, broken for some questions."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = body["messages"][-1]["content"]
        if any(question in prompt for question in self.server.refused):
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


@contextmanager
def judge(workspace: Path) -> Iterator[str]:
    """Serve the judge on loopback; its base URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Judge)
    server.refused = refused(workspace)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()


def play(folder: Path, workspace: Path, python: Path, url: str) -> Run:
    """Two steps."""
    overrides = (
        "algorithm.adv_estimator=gae",
        "critic.enable=true",
        "critic.optim.lr=1e-3",
        "data.shuffle=false",
        "docagent.judge.kind=openai",
        f"docagent.judge.base_url={url}",
        "docagent.judge.model=judge",
        "docagent.judge.attempts=1",
        "docagent.judge.deadline_s=20",
        "trainer.total_training_steps=2",
        "trainer.val_before_train=false",
        "trainer.test_freq=-1",
        "trainer.save_freq=-1",
    )
    run = Run(folder, workspace, overrides, python)
    run.finish()
    return run
