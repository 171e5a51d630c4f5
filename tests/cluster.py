"""Ray nodes on this machine, each a `ray start`; a folder may be hidden from a node."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

START_S = 300
ENVIRONMENT = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_memory_monitor_refresh_ms": "0",
    # a worker of a machine with two cores takes its time
    "RAY_worker_register_timeout_seconds": "300",
}
MARK = "DOCAGENT_TEST_NODE"
"""A variable that tells of every process which node started it; forks of a warm interpreter are
nobody's children.
"""
HIDE = 'mount --bind "$0" "$1" && shift && exec "$@"'


class Cluster:
    """A head and nodes that join it, with a temporary folder of their own.

    Args:
        folder: for logs and for `ray_current_cluster`, which is nobody else's then; its path is
            short.
        python: the interpreter of the nodes and so of all their workers.
        environment: further variables, of all nodes.
    """

    def __init__(
        self, folder: Path, python: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.folder, self._python = folder, python
        self._environment = {**ENVIRONMENT, **(environment or {})}
        self._nodes: dict[subprocess.Popen, str] = {}
        self.address = ""
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables of a process that joins."""
        return {**ENVIRONMENT, "RAY_ADDRESS": self.address, "RAY_TMPDIR": str(self.folder)}

    def __enter__(self) -> Cluster:
        self.address = self._start(
            "--head", "--port=0", "--include-dashboard=false", cpus=8, gpus=1
        )
        return self

    def __exit__(self, *_: object) -> None:
        for node in reversed(list(self._nodes)):
            self.kill(node)

    def add(
        self,
        *,
        cpus: int = 8,
        gpus: int = 1,
        hidden: Path | None = None,
        python: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.Popen:
        """Let a node join.

        Args:
            cpus: places for actors.
            gpus: places for workers of the model.
            hidden: a folder that is empty to this node; its interpreter must not be a warm one.
            python: its interpreter, if not that of the others.
            environment: further variables of its own.
        """
        self._start(
            f"--address={self.address}",
            cpus=cpus,
            gpus=gpus,
            hidden=hidden,
            python=python,
            own=environment,
        )
        return list(self._nodes)[-1]

    def kill(self, node: subprocess.Popen) -> None:
        """Kill a node and all its processes, as a power cut would."""
        name = self._nodes.pop(node)
        for process in psutil.process_iter():
            with suppress(psutil.Error):  # of others, or gone
                if process.environ().get(MARK) == name:
                    process.kill()
        node.wait()

    def _start(
        self,
        *arguments: str,
        cpus: int,
        gpus: int,
        hidden: Path | None = None,
        python: Path | None = None,
        own: Mapping[str, str] | None = None,
    ) -> str:
        number = len(list(self.folder.glob("node-*.txt")))
        log = self.folder / f"node-{number}.txt"
        places = [f"--num-cpus={cpus}", f"--num-gpus={gpus}", f"--object-store-memory={200 << 20}"]
        ports = ["--dashboard-agent-listen-port=0", "--min-worker-port=0", "--max-worker-port=0"]
        command = [str(python or self._python), "-m", "ray.scripts.scripts", "start", "--block"]
        command += [*arguments, *places, *ports, "--disable-usage-stats"]
        if hidden is not None:
            empty = self.folder / "empty"
            empty.mkdir(exist_ok=True)
            command = ["unshare", "-rm", "sh", "-c", HIDE, str(empty), str(hidden), *command]
        environment = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"}
        environment |= {
            **self._environment,
            "RAY_TMPDIR": str(self.folder),
            MARK: f"{self.folder}/{number}",
        }
        environment |= own or {}
        with log.open("w") as file:
            process = subprocess.Popen(
                command,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=self.folder,
                start_new_session=True,
            )
        self._nodes[process] = environment[MARK]
        return self._address(process, log)

    def _address(self, process: subprocess.Popen, log: Path) -> str:
        """Wait until a node runs; return the address that its log gives for joining."""
        deadline = time.monotonic() + START_S
        while "Ray runtime started" not in (said := log.read_text(errors="replace")):
            assert process.poll() is None, said
            assert time.monotonic() < deadline, said
            time.sleep(0.2)
        found = re.search(r"--address='([^']+)'", said)
        return found[1] if found else self.address


def can_hide() -> bool:
    """Return whether this machine lets a process see files of its own."""
    return (
        subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0
    )
