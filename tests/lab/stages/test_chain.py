"""Chains of real processes: completed stages are skipped, and interrupted stages resume."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.lab.stages.chain import Chain
from docagent_rl.lab.stages.marker import FOLDER, StageState, identity, state
from docagent_rl.lab.stages.plan import plan_text
from docagent_rl.lab.stages.stage import ChainStage, Estimate, Service

GO_ON = "docagent-rl reproduce paper --workspace W"


@pytest.fixture
def chain(tmp_path):
    """Return two stages: one writes a file, the other counts its starts and copies it."""

    def make(text: str = "one", second: str = "cp {w}/a {w}/b", **more: object) -> Chain:
        a, b, runs = tmp_path / "a", tmp_path / "b", tmp_path / "runs"
        stages = [
            ChainStage("first", "writes", f"echo x >> {runs}; echo {text} > {a}", outputs=(a,)),
            ChainStage(
                "second", "copies", second.format(w=tmp_path), inputs=(a,), outputs=(b,), **more
            ),
        ]
        return Chain("paper", stages, tmp_path, GO_ON)

    return make


def starts(folder: Path) -> int:
    return (folder / "runs").read_text().count("x")


def test_what_is_done_is_skipped_and_a_lost_output_is_made_again(chain, tmp_path, capfd):
    chain().run()
    assert (tmp_path / "b").read_text() == "one\n"
    chain().run()
    assert starts(tmp_path) == 1
    assert capfd.readouterr().out.count(": done\n") == 2
    (tmp_path / "a").unlink()
    chain().run()
    assert starts(tmp_path) == 2


def test_a_changed_command_runs_again_and_those_that_read_its_output_do(chain, tmp_path):
    chain().run()
    changed = chain("two")
    found = [state(stage, tmp_path) for stage in changed.stages]
    assert found == [StageState.COMMAND, StageState.DONE]
    changed.run()
    assert (tmp_path / "b").read_text() == "two\n"


def test_a_changed_input_runs_again_and_the_same_content_does_not(chain, tmp_path):
    made = chain()
    made.run()
    (tmp_path / "a").write_text("one\n")
    assert state(made.stages[1], tmp_path) is StageState.DONE
    (tmp_path / "a").write_text("other\n")
    assert state(made.stages[1], tmp_path) is StageState.INPUTS


def test_a_failed_stage_is_named_with_its_log_and_the_command_to_go_on(chain, tmp_path, capfd):
    failing = chain(second="echo what went wrong >&2; false | cat")
    with pytest.raises(UserError) as error:
        failing.run()
    message = str(error.value)
    log = tmp_path / FOLDER / "second.log"
    assert "stage second ended with status 1" in message
    assert str(log) in message
    assert GO_ON in message
    assert "what went wrong" in log.read_text()
    assert "what went wrong" in capfd.readouterr().out
    chain().run()
    assert starts(tmp_path) == 1


def test_a_stage_that_leaves_nothing_behind_has_failed(chain, tmp_path):
    with pytest.raises(UserError, match=f"ended without {tmp_path / 'b'}"):
        chain(second="true").run()


def test_inputs_that_are_missing_are_named(chain, tmp_path):
    with pytest.raises(UserError, match=r"stage second reads .*a, which does not exist"):
        chain().run(["second"])


def test_a_stage_by_hand_is_done_when_its_output_is_there(tmp_path):
    data = tmp_path / "data"
    by_hand = ChainStage("fetch", "gets data", None, outputs=(data,), by_hand="accept the licence")
    chain = Chain("paper", [by_hand], tmp_path, GO_ON)
    with pytest.raises(UserError, match="accept the licence") as error:
        chain.run()
    assert str(data) in str(error.value)
    data.mkdir()
    chain.run()


def test_unknown_stages_are_refused_with_the_nearest(chain):
    with pytest.raises(UserError, match="did you mean second"):
        chain().run(["secnd"])


def test_what_is_hidden_in_a_folder_does_not_change_it(tmp_path):
    folder = tmp_path / "download"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "x").write_text("1")
    before = identity(folder)
    (folder / ".cache").mkdir()
    (folder / ".cache" / "lock").write_text("1")
    assert identity(folder) == before
    (folder / "a" / "y").write_text("1")
    assert identity(folder) != before
    assert identity(tmp_path / "nowhere") == "absent"


RUNNER = """
import sys
from pathlib import Path
from docagent_rl.cli import reported
from docagent_rl.lab.stages.chain import Chain
from docagent_rl.lab.stages.stage import ChainStage

w = Path(sys.argv[1])
wait = f"touch {w}/began; sleep 60"
slow = f"echo x >> {w}/tries; test -e {w}/fast || {{ {wait}; }}; touch {w}/slow"
stages = [
    ChainStage("first", "writes", f"echo x >> {w}/runs; touch {w}/a", outputs=(w / "a",)),
    ChainStage("slow", "waits", slow, inputs=(w / "a",), outputs=(w / "slow",)),
]
with reported():
    Chain("paper", stages, w, "go on").run()
"""


def started(folder: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_after_a_kill_the_chain_goes_on_where_it_was(tmp_path):
    process = started(tmp_path)
    wait_for(tmp_path / "began")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / FOLDER / "slow.json").exists()
    (tmp_path / "fast").touch()
    again = started(tmp_path)
    assert again.wait(60) == 0
    assert (starts(tmp_path), (tmp_path / "tries").read_text().count("x")) == (1, 2)


def test_sigterm_reaches_the_command_and_is_said(tmp_path):
    process = started(tmp_path)
    wait_for(tmp_path / "began")
    time.sleep(0.2)  # until the command waits
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "stage slow ended with status 143" in said.replace("\n", " ")
    assert "go on" in said


def test_two_chains_do_not_work_in_one_workspace(tmp_path, chain):
    process = started(tmp_path)
    wait_for(tmp_path / "began")
    with pytest.raises(UserError, match="is writing to this folder"):
        chain().run()
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


SERVER = (
    "import http.server,sys;"
    "http.server.HTTPServer(('127.0.0.1',int(sys.argv[1])),"
    "http.server.SimpleHTTPRequestHandler).serve_forever()"
)


def service(port: int, command: str) -> Service:
    return Service("judge", command, f"http://127.0.0.1:{port}/", start_s=60)


def test_a_service_runs_while_a_stage_needs_it(tmp_path, free_port):
    ask = f"import urllib.request as u; u.urlopen('http://127.0.0.1:{free_port}/')"
    asks = f'"{sys.executable}" -c "{ask}"'
    server = service(free_port, f'exec "{sys.executable}" -c "{SERVER}" {free_port}')
    stages = [
        ChainStage("with", "asks", f"{asks}; touch {tmp_path}/a", services=("judge",)),
        ChainStage("without", "asks nobody", f"! {asks} 2> /dev/null; touch {tmp_path}/b"),
    ]
    Chain("paper", stages, tmp_path, GO_ON, (server,)).run()
    assert (tmp_path / "b").exists()


def test_a_service_on_the_gpu_of_another_starts_when_that_one_answers(tmp_path, free_port):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        second_port = listener.getsockname()[1]
    ask = f"import urllib.request as u; u.urlopen('http://127.0.0.1:{free_port}/')"
    first = service(free_port, f'sleep 1; exec "{sys.executable}" -c "{SERVER}" {free_port}')
    # it ends at once, with an error, if the first one does not answer yet
    asks = f'"{sys.executable}" -c "{ask}"'
    command = f'{asks} && exec "{sys.executable}" -c "{SERVER}" {second_port}'
    second = replace(service(second_port, command), name="reader", after=("judge",))
    stage = ChainStage("with", "asks", f"touch {tmp_path}/a", services=("judge", "reader"))
    Chain("paper", [stage], tmp_path, GO_ON, (first, second)).run()
    assert (tmp_path / "a").exists()


def test_a_service_that_ends_is_named_with_its_log(tmp_path, free_port):
    stage = ChainStage("with", "asks", "true", services=("judge",))
    server = service(free_port, "echo no memory; exit 3")
    with pytest.raises(InfrastructureError, match="service judge ended with status 3") as error:
        Chain("paper", [stage], tmp_path, GO_ON, (server,)).run()
    log = tmp_path / FOLDER / "service_judge.log"
    assert str(log) in str(error.value)
    assert "no memory" in log.read_text()


def test_a_plan_sums_up_what_is_left(tmp_path):
    takes = Estimate(12.0, 100.0, "rows x seconds")
    stages = [
        ChainStage("a", "writes", f"touch {tmp_path}/a", outputs=(tmp_path / "a",), estimate=takes),
        ChainStage("b", "more", "true", estimate=Estimate(None, 1.5)),
        ChainStage("c", "yours", None, outputs=(tmp_path / "c",), by_hand="accept the licence"),
    ]
    chain = Chain("paper", stages, tmp_path, GO_ON)
    text = plan_text(chain, price=2.0)
    assert "12 GPU hours, 100 GiB of disk, cost 24" in text
    assert "by rows x seconds" in text
    assert "unknown GPU hours" in text
    assert "by hand: accept the licence" in text
    assert "3 unfinished stages take 12 GPU hours, 102 GiB" in text
    assert "hours of 1 more unknown" in text
    with pytest.raises(UserError, match="stage c has to be done by hand"):
        chain.run()
    assert "1. a: writes [done]" in plan_text(chain)
    assert json.loads((tmp_path / FOLDER / "a.json").read_text())["inputs"] == {}


def test_a_workspace_belongs_to_one_chain_and_what_others_made_stays(chain, tmp_path):
    (tmp_path / "b").write_text("mine\n")
    with pytest.raises(UserError, match=r"already contains \S+b, which this chain would overwrite"):
        chain().run()
    assert (tmp_path / "b").read_text() == "mine\n"
    assert not (tmp_path / "a").exists()
    (tmp_path / "b").unlink()
    chain().run()
    other = replace(chain("two"), name="another")
    with pytest.raises(UserError, match="belongs to the chain 'paper', and this is 'another'"):
        other.run()
    assert (tmp_path / "b").read_text() == "one\n"
