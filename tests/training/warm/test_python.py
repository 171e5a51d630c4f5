from __future__ import annotations

import signal
import subprocess

import pytest

from docagent_rl.training.warm import WarmPython
from tests.processes import ends


@pytest.fixture(scope="module")
def warm():
    with WarmPython(["decimal", "numpy"]) as python:
        yield python


def run(warm: WarmPython, *arguments: str, **options) -> subprocess.CompletedProcess:
    options = {"capture_output": True, "text": True, "timeout": 60, **options}
    return subprocess.run([warm.executable, *arguments], **options)


def test_imports_are_done(warm):
    done = run(warm, "-c", "import sys; print('decimal' in sys.modules, 'tomllib' in sys.modules)")
    assert done.stdout == "True False\n"


def test_arguments_folder_and_environment(warm, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import os, sys\nprint(sys.argv[1:], os.getcwd(), os.environ['A'])\n")
    done = run(warm, "-u", str(program), "x", "-y", cwd=tmp_path, env={"A": "b"})
    assert done.stdout == f"['x', '-y'] {tmp_path} b\n"


def test_module(warm):
    assert run(warm, "-m", "json.tool", input="[1]").stdout == "[\n    1\n]\n"


def test_exit_status_and_error_output(warm):
    done = run(warm, "-c", "raise SystemExit(7)")
    assert done.returncode == 7
    done = run(warm, "-c", "1 / 0")
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr


def test_death_by_signal_is_the_clients_too(warm):
    done = run(warm, "-c", "import os; os.kill(os.getpid(), 9)")
    assert done.returncode == -signal.SIGKILL


def test_children_are_warm_too(warm):
    child = "import sys; print('decimal' in sys.modules)"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    assert run(warm, "-c", program).stdout == "True\n"


def test_processes_of_multiprocessing(warm, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing, sys\n"
        "def work(queue):\n    queue.put(('decimal' in sys.modules, 41 + 1))\n"
        "if __name__ == '__main__':\n"
        "    context = multiprocessing.get_context('spawn')\n"
        "    queue = context.Queue()\n"
        "    process = context.Process(target=work, args=(queue,))\n"
        "    process.start()\n    print(queue.get(timeout=30))\n"
        "    process.join()\n    print(process.exitcode)\n"
    )
    assert run(warm, str(program)).stdout == "(True, 42)\n0\n"


def test_random_numbers_differ(warm):
    program = "import numpy, random; print(numpy.random.random(), random.random())"
    assert run(warm, "-c", program).stdout != run(warm, "-c", program).stdout


def test_signals_reach_the_program(warm):
    program = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
        "print('on', flush=True)\ntime.sleep(60)"
    )
    process = subprocess.Popen([warm.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "on\n"
    process.terminate()
    assert process.wait(30) == 5


def test_a_killed_client_takes_its_program_along(warm):
    program = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    process = subprocess.Popen([warm.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    pid = int(process.stdout.readline())
    process.kill()
    process.wait()
    assert ends(pid)


def test_a_program_that_kills_its_group_kills_no_other(warm):
    done = run(warm, "-c", "import os; os.killpg(0, 9)")
    assert done.returncode == -signal.SIGKILL
    assert run(warm, "-c", "print(1)").stdout == "1\n"


def test_imports_that_fail():
    with pytest.raises(RuntimeError), WarmPython(["docagent_rl.no_such_module"]):
        pass
