"""An asynchronous run with a value model and a judge that fails in two ways; its engine dies; it goes on."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from docagent_rl.samples.parquet import read_parquet
from tests.e2e.conftest import Run, add_model
from tests.e2e.deaths import Resumed, die_and_resume

STEPS = 3


def refused(workspace: Path) -> set[str]:
    """The questions on which the judge breaks down: every fourth that is trained on, in order."""
    return {r.question for r in read_parquet(workspace / "data" / "train.parquet")[::4]}


class Judge(BaseHTTPRequestHandler):
    """A chat-completions endpoint: nonsense for some questions, 503 for some, and yes to the others."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = body["messages"][-1]["content"]
        self.server.asked.append(prompt)
        broken = [number for number, question in enumerate(self.server.refused) if question in prompt]
        if not broken:
            self.answer()
        elif broken[0] % 2:
            self.send_error(503)
        else:
            self.reply(b"<html>not what you asked for</html>", "text/html")

    def answer(self) -> None:
        """Right, whatever was asked."""
        message = {"role": "assistant", "content": "<judge>true</judge>"}
        reply = {"id": "1", "object": "chat.completion", "created": 0, "model": "judge",
                 "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}  # fmt: skip
        self.reply(json.dumps(reply).encode(), "application/json")

    def reply(self, data: bytes, kind: str) -> None:
        """A body with status 200."""
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


@contextmanager
def judge(questions: Iterable[str], host: str = "127.0.0.1", asked: list[str] | None = None) -> Iterator[str]:
    """Serve the judge that breaks down on some questions; its base URL. A list takes what it is asked."""
    server = ThreadingHTTPServer((host, 0), Judge)
    server.refused, server.asked = sorted(questions), [] if asked is None else asked
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://{host}:{server.server_port}/v1"
    finally:
        server.shutdown()


def play(folder: Path, workspace: Path, python: Path) -> Resumed:
    """Kill the engine behind the first checkpoint, with trajectories of later steps under way; finish the
    run.

    The first start is that of a user, every import included.
    """
    add_model(workspace, "vrag_rl", python)
    with judge(refused(workspace)) as url:
        overrides = (
            "+retriever=tiny_colqwen2",
            "trainer.v1.trainer_mode=docagent_colocate_async",
            "algorithm.adv_estimator=gae",
            "critic.enable=true",
            "critic.optim.lr=1e-3",
            "data.shuffle=false",
            "docagent.judge.kind=openai",
            f"docagent.judge.base_url={url}",
            "docagent.judge.model=judge",
            "docagent.judge.attempts=1",
            "docagent.judge.deadline_s=20",
            f"trainer.total_training_steps={STEPS}",
            "trainer.val_before_train=false",
            "trainer.test_freq=-1",
            "trainer.save_freq=1",
        )
        run = Run(folder, workspace, overrides, Path(sys.executable))
        saved = run.run_dir / "checkpoints" / "global_step_1" / "manifest.json"
        return die_and_resume(run, saved.is_file, python)
