import signal
import subprocess

import pytest

from tests.processes import ends
from tools.warm import WarmPython


@pytest.fixture(scope="module")
def warm():
    with WarmPython(["decimal", "numpy"]) as python:
        yield python


def run(warm: WarmPython, *arguments: str, **options) -> subprocess.CompletedProcess:
    options = {"capture_output": True, "text": True, "timeout": 300, **options}
    return subprocess.run([warm.executable, *arguments], **options)


def test_imports_are_done_for_children_too(warm):
    child = "import sys; print('decimal' in sys.modules, 'tomllib' in sys.modules)"
    assert run(warm, "-c", child).stdout == "True False\n"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    assert run(warm, "-c", program).stdout == "True False\n"


def test_arguments_folder_and_environment(warm, tmp_path):
    program = tmp_path / "program.py"
    text = (
        "import os, sys, numpy\nprint(sys.argv[1:], os.getcwd(), os.environ['A'], "
        "numpy.random.random())\n"
    )
    program.write_text(text)
    found = [
        run(warm, "-u", str(program), "x", "-y", cwd=tmp_path, env={"A": "b"}).stdout
        for _ in range(2)
    ]
    assert all(each.startswith(f"['x', '-y'] {tmp_path} b 0.") for each in found)
    assert found[0] != found[1]  # random numbers differ
    assert run(warm, "-m", "json.tool", input="[1]").stdout == "[\n    1\n]\n"
    # whatever files the server's own streams were
    other = (
        "import sys; [s.reconfigure(errors='replace') for s in (sys.stdout, sys.stderr)]; print(1)"
    )
    assert run(warm, "-c", other).stdout == "1\n"


def test_the_command_line_is_warm_too(warm):
    stages = {"PATH": f"{warm.executable.parent}:/bin:/usr/bin"}
    asked = ["bash", "-c", "docagent-rl data template --help"]
    done = subprocess.run(asked, capture_output=True, text=True, env=stages, check=False)
    assert "Usage: docagent-rl data template" in done.stdout, done


@pytest.mark.parametrize(
    ("program", "code", "said"),
    [
        ("raise SystemExit(7)", 7, ""),
        ("1 / 0", 1, "ZeroDivisionError"),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL, ""),
        # kills its group, and no other program
        ("import os; os.killpg(0, 9)", -signal.SIGKILL, ""),
    ],
)
def test_how_a_program_ends(warm, program, code, said):
    done = run(warm, "-c", program)
    assert done.returncode == code
    assert said in done.stderr
    assert run(warm, "-c", "print(1)").stdout == "1\n"


def started(warm: WarmPython, program: str) -> tuple[subprocess.Popen, str]:
    """Start a program that prints a line and continues; return its process and the line."""
    program = f"import os, signal, sys, time\n{program}\ntime.sleep(600)"
    process = subprocess.Popen(
        [warm.executable, "-u", "-c", program], stdout=subprocess.PIPE, text=True
    )
    return process, process.stdout.readline()


def test_programs_can_be_interrupted_even_if_the_warm_process_was_started_in_the_background():
    """A shell ignores SIGINT for what it starts in the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        background = WarmPython(["json"])
        background.__enter__()
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        process, _ = started(background, "print(1)")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == -signal.SIGINT
    finally:
        background.__exit__(None, None, None)


def test_a_killed_client_takes_its_program_along(warm):
    process, pid = started(warm, "print(os.getpid())")
    process.kill()
    process.wait()
    assert ends(int(pid))
