"""Processes of a chain: a command whose output is passed through, and the services it needs."""

import os
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import httpx2

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.endpoints.http_client import is_loopback
from docagent_rl.lab.stages.stage import Service

_LOOK_S = 0.5
_ANSWER_S = 5.0
_GRACE_S = 30.0
"""Seconds that a service has to end by itself."""
_PIECE = 1 << 16


def run_in_bash(command: str, environment: Mapping[str, str], log: Path) -> int:
    """Run a command in bash, with its output on standard output and at the end of a log.

    SIGTERM, which schedulers send, is forwarded, so that the command can save before it ends.
    Ctrl-C reaches the command directly, because it is in the same process group.

    Returns:
        Its exit status; negative for the signal that ended it.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        file.write(f"$ {command}\n".encode())
        process = subprocess.Popen(
            # the last line keeps the shell: its child is the command, which signals are for
            ["bash", "-c", f"set -eo pipefail; {command}\nexit $?"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=_environment(environment),
        )
        with _forwarding_sigterm(process):
            try:
                _pass_through(process, file)
                return process.wait()
            except KeyboardInterrupt:
                process.wait()
                raise


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    """Return a process's environment; programs of this interpreter's environment come first."""
    beside = str(Path(sys.executable).parent)
    places = [beside, sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)]
    return {**os.environ, "PATH": os.pathsep.join(places), **more}


@contextmanager
def ending_by_sigterm() -> Generator[None]:
    """Turn SIGTERM into an exception, so that services are stopped too."""

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _forwarding_sigterm(process: subprocess.Popen[bytes]) -> Generator[None]:
    def forward(number: int, _: object) -> None:
        _signal_children(process.pid, number)

    before = signal.signal(signal.SIGTERM, forward)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _signal_children(pid: int, number: int) -> None:
    """Send a signal to a shell's command; bash would wait for the command before it reacts."""
    import psutil

    with suppress(psutil.NoSuchProcess):
        shell = psutil.Process(pid)
        for each in shell.children() or [shell]:
            each.send_signal(number)


def _pass_through(process: subprocess.Popen[bytes], log: BinaryIO) -> None:
    assert process.stdout is not None
    handle = process.stdout.fileno()
    while piece := os.read(handle, _PIECE):
        log.write(piece)
        log.flush()
        sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()


class Services:
    """The services of a chain; only those that the current stage needs are running."""

    def __init__(self, known: Collection[Service], folder: Path) -> None:
        """Register services; their logs are written to `folder`."""
        self._known = {each.name: each for each in known}
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def ensure(self, names: Collection[str]) -> None:
        """Stop the other services, start these, and return when all of them answer.

        A service that already answers, because somebody else runs it, is used as it is. One that
        shares a GPU with another starts when that one answers.

        Raises:
            UserError: a service is not known.
            InfrastructureError: a service ended, or did not answer in time.
        """
        if unknown := set(names) - self._known.keys():
            raise UserError(f"there is no service {', '.join(sorted(unknown))}")
        for name in [each for each in self._running if each not in names]:
            self._end(name)
        started = [self._known[name] for name in names if name not in self._running]
        for service in started:
            for name in set(service.after) & set(names):
                self._wait(self._known[name])
            if not _answers(service.ready):
                self._start(service)
        for service in started:
            self._wait(service)

    def end(self) -> None:
        """Stop all services that were started here."""
        for name in list(self._running):
            self._end(name)

    def log(self, name: str) -> Path:
        """Return the file that contains a service's output."""
        return self._folder / f"service_{name}.log"

    def _start(self, service: Service) -> None:
        print(f"service {service.name}: {service.command}", flush=True)
        log = self.log(service.name)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as file:
            self._running[service.name] = subprocess.Popen(
                ["bash", "-c", service.command],
                stdout=file,
                stderr=subprocess.STDOUT,
                env=_environment(service.environment),
                start_new_session=True,
            )

    def _wait(self, service: Service) -> None:
        deadline = time.monotonic() + service.start_s
        while not _answers(service.ready):
            process = self._running.get(service.name)
            if process is not None and process.poll() is not None:
                raise InfrastructureError(
                    f"service {service.name} ended with status {process.returncode}; its log is "
                    f"{self.log(service.name)}"
                )
            if time.monotonic() > deadline:
                raise InfrastructureError(
                    f"service {service.name}: {service.ready} did not answer within "
                    f"{service.start_s:.0f} s; its log is {self.log(service.name)}"
                )
            time.sleep(_LOOK_S)

    def _end(self, name: str) -> None:
        process = self._running.pop(name)
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_S)
                return


def _answers(address: str) -> bool:
    # a proxy elsewhere would look for a loopback address on its own machine
    past_proxies = is_loopback(address)
    try:
        with httpx2.stream("GET", address, timeout=_ANSWER_S, trust_env=not past_proxies) as reply:
            # one that asks for a token is running, too
            return reply.is_success or reply.status_code in (401, 403)
    except (httpx2.HTTPError, httpx2.InvalidURL):
        return False
