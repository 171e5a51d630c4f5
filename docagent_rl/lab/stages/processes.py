"""Processes of a chain: a command whose output is passed through, and services beside it."""

import os
import signal
import subprocess
import sys
import sysconfig
import time
import urllib.error
import urllib.request
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.lab.stages.stage import Service

_LOOK_S = 0.5
_GRACE_S = 30.0
"""Seconds that a service has to end by itself."""
_PIECE = 1 << 16


def run_command(command: str, environment: Mapping[str, str], log: Path) -> int:
    """Run a command in bash, with its output on standard output and at the end of a log.

    SIGTERM, which schedulers send, is handed on: the command may save before it ends. Ctrl-C
    reaches the command by itself, since it is of the same group of processes.

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
        with _handing_on(process):
            try:
                _pass_through(process, file)
                return process.wait()
            except KeyboardInterrupt:
                process.wait()
                raise


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a process: programs of this interpreter are found first."""
    beside = str(Path(sys.executable).parent)
    places = [beside, sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)]
    return {**os.environ, "PATH": os.pathsep.join(places), **more}


@contextmanager
def ending_by_sigterm() -> Generator[None]:
    """Have SIGTERM end the process as an exception does, so that services are ended too."""

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _handing_on(process: subprocess.Popen[bytes]) -> Generator[None]:
    def hand_on(number: int, _: object) -> None:
        _signal_children(process.pid, number)

    before = signal.signal(signal.SIGTERM, hand_on)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _signal_children(pid: int, number: int) -> None:
    """Send a signal to a shell's command: bash itself waits for that, whatever it is sent."""
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
    """The services of a chain, of which those run that the stage at hand needs."""

    def __init__(self, known: Collection[Service], folder: Path) -> None:
        """Know services; `folder` gets their logs."""
        self._known = {each.name: each for each in known}
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def have(self, names: Collection[str]) -> None:
        """End what is not among these and start the others; return when all answer.

        One that answers already, because somebody else runs it, is taken as it is.

        Raises:
            UserError: a service is not known.
            InfrastructureError: one ended, or did not answer in its time.
        """
        if unknown := set(names) - self._known.keys():
            raise UserError(f"there is no service {', '.join(sorted(unknown))}")
        for name in [each for each in self._running if each not in names]:
            self._end(name)
        started = [self._known[name] for name in names if name not in self._running]
        for service in started:
            if not _answers(service.ready):
                self._start(service)
        for service in started:
            self._wait(service)

    def end(self) -> None:
        """End all that were started here."""
        for name in list(self._running):
            self._end(name)

    def log(self, name: str) -> Path:
        """Return the file of what a service prints."""
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
                    f"service {service.name}: {service.ready} does not answer after "
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
    try:
        with urllib.request.urlopen(address, timeout=5) as reply:
            return reply.status < 400
    except urllib.error.HTTPError as error:
        return error.code in (401, 403)  # it is there, and wants a token
    except (OSError, ValueError):
        return False
