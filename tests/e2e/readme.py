"""The commands of the README, typed into one shell in a copy of this checkout."""

import os
import re
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.request import HTTPCookieProcessor, build_opener

import psutil

from docagent_rl.lab.own_agent.project import FILE
from docagent_rl.lab.tiny.workspace import DemoPaths
from tests.chat_server import ChatServer, threaded
from tests.documents.conftest import write_pdf
from tests.e2e.conftest import PATIENCE_S, kill
from tests.processes import end, members

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)
ENDPOINT = "http://127.0.0.1:8000/v1"
"""The endpoint that the README asks; a free port takes its place."""
STEPS = 2
ANSWER = r"<think>The page says it.</think><answer>\boxed{350}</answer>"
"""The reply of the endpoint, in the form of the system that `ask` plays unless told otherwise."""
STAMP = ".docagent-rl-set-up"
"""The file by which set-up recognises an environment that is complete."""
OF_THIS_PROCESS = ("MAKE", "MFLAGS", "PYTEST", "WARM_", "COLD_", "DOCAGENT_", "PYTHON")
"""Beginnings of the names of variables that a user's shell does not have. Those of Ray stay: the
tests' Ray has a folder of its own, and no exporter of metrics, which can crash.
"""
TEXTS = ("The mill opened in spring", "Its wheel turns twice", "The baker buys flour")


@dataclass(frozen=True)
class Typed:
    """A folder in which the README was followed.

    Args:
        folder: the copy of the checkout.
        said: what each command printed, in the README's order.
        repeated: what the chain of the user's agent printed when it was started again.
    """

    folder: Path
    said: dict[str, str]
    repeated: str

    @property
    def agent(self) -> Path:
        """Return the folder of the user's agent."""
        return self.folder / "my_agent"


def commands() -> list[str]:
    """Return the commands of the README, without comments, in order."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = "".join(BLOCK.findall(text)).replace("\\\n", " ").splitlines()
    return [line.partition(" #")[0].strip() for line in lines if line.strip()]


def play(folder: Path, python: Path) -> Typed:
    """Type all commands; the user's agent gets two steps, and the tiny model of the demo."""
    copy_checkout(folder, python)
    said: dict[str, str] = {}
    with threaded(ChatServer(script=[ANSWER])) as server:
        shell = Shell(folder)
        try:
            for command in commands():
                if command.startswith("docagent-rl run"):
                    shorten(folder)
                said[command] = shell.enter(command.replace(ENDPOINT, server.url))
            run = next(each for each in said if each.startswith("docagent-rl run"))
            return Typed(folder, said, shell.enter(run))
        finally:
            shell.close()


def shorten(folder: Path) -> None:
    """Choose two steps for the user's agent, and give it the demo's tiny model, which its training
    would make again.
    """
    file = folder / "my_agent" / FILE
    text = file.read_text(encoding="utf-8")
    assert "steps: null" in text
    file.write_text(text.replace("steps: null", f"steps: {STEPS}"), encoding="utf-8")
    models = DemoPaths(folder / "workspace").models
    shutil.copytree(models, DemoPaths(folder / "my_agent").models)


def copy_checkout(folder: Path, python: Path) -> None:
    """Copy what git knows and does not ignore, with an environment that begins with its imports
    done, and with the documents that the commands name.
    """
    listed = ("git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others")
    names = subprocess.run(
        [*listed, "--exclude-standard"], check=True, capture_output=True, text=True
    ).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
            shutil.copymode(ROOT / name, folder / name)
    bin_folder = folder / ".venv" / "bin"
    bin_folder.mkdir(parents=True)
    for program in ("python", "docagent-rl"):
        file = bin_folder / program
        file.write_text(f'#!/bin/sh\nexec {python.parent / program} "$@"\n', encoding="utf-8")
        file.chmod(0o755)
    activate = f'export PATH="{bin_folder}:$PATH"\n'
    (bin_folder / "activate").write_text(activate, encoding="utf-8")
    # set-up in the copy must find nothing to do: it would install the copy into this environment
    subprocess.run([ROOT / "tools" / "setup.sh"], check=True)
    shutil.copyfile(ROOT / ".venv" / STAMP, folder / ".venv" / STAMP)
    # in the place of two manuals, which are downloaded
    for name in ("debian-reference", "packaging-tutorial"):
        write_pdf(folder / "workspace" / "pdfs" / f"{name}.pdf", list(TEXTS))
    write_pdf(folder / "report.pdf", ["The company has 350 employees."])
    for name in ("mill", "bakery"):
        write_pdf(folder / "pdfs" / f"{name}.pdf", [f"{name}: {text}" for text in TEXTS])


class Shell:
    """A shell that commands are typed into, one after the other."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._log = folder / "typed.txt"
        self._read = 0
        """Bytes of the log that belong to earlier commands."""
        self._entered = 0
        kept = {k: v for k, v in os.environ.items() if not k.startswith(OF_THIS_PROCESS)}
        variables = {"RAY_ADDRESS": "local", "HF_HUB_OFFLINE": "1", "BROWSER": "true"}
        with self._log.open("wb") as log:
            self._bash = subprocess.Popen(
                ["bash"],
                cwd=folder,
                env=kept | variables,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )

    def enter(self, command: str) -> str:
        """Run a command to its end, and return what it printed. A server gets Ctrl-C once the
        address that it prints has been opened.
        """
        serves = command.startswith("docagent-rl view")
        self._entered += 1
        ending = f"end of command {self._entered}, exit status"
        assert self._bash.stdin is not None
        self._bash.stdin.write(f'{command}\necho "{ending}: $?"\n')
        self._bash.stdin.flush()
        deadline = time.monotonic() + PATIENCE_S
        while f"{ending}: " not in (said := self._said()):
            assert time.monotonic() < deadline, f"{command}\n{said[-6000:]}"
            assert self._bash.poll() is None, f"{command}\n{said[-6000:]}"
            if serves and (address := re.search(r"http://\S+", said)):
                self._visit(address[0])
                serves = False
            time.sleep(0.2)
        self._read = self._log.stat().st_size
        assert f"{ending}: 0\n" in said, f"{command}\n{said[-6000:]}"
        return said

    def _said(self) -> str:
        return self._log.read_bytes()[self._read :].decode(errors="replace")

    def _visit(self, address: str) -> None:
        """Open a page, whose token becomes a cookie, and interrupt the program that serves it."""
        browser = build_opener(HTTPCookieProcessor())
        with browser.open(address, timeout=60) as page:
            assert page.status == 200
        for child in psutil.Process(self._bash.pid).children():
            child.send_signal(signal.SIGINT)

    def close(self) -> None:
        """End the shell and everything that was started in its folder."""
        kill(self._bash)
        end(members(self._folder))
