"""The warm process, which imports modules once and then forks on request.

It is run as `python server.py <folder> lazy|eager <module>...`; if lazy, it imports when the first
request arrives.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MOST_FILES = 250
"""Number of open files that one message can carry."""

HIGH = 512
"""Received files are first moved to numbers from here on, before each gets its original number."""


@dataclass
class Request:
    """A request of `client.py` to run a program."""

    body: dict[str, Any]
    files: list[int]


class Server:
    """Forks a child for each connection; single-threaded, since threads do not survive a fork."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / "socket"))
        self._listener.listen(64)
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._children: dict[int, tuple[int, socket.socket]] = {}
        """For each child's pid, the handle that becomes readable when it ends, and its client."""

    def wait(self) -> None:
        """Wait for the first client."""
        self._selector.select()

    def serve(self) -> Request:
        """Serve forever in this process; return in each child, with the program it should run."""
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    connection, _ = self._listener.accept()
                    request = receive(connection)
                    if request is not None and self._fork(connection, request):
                        return request
                else:
                    self._end(key.data, hung_up=key.fileobj is not self._children[key.data][0])
                    break  # other events may belong to the same child

    def _fork(self, connection: socket.socket, request: Request) -> bool:
        pid = os.fork()
        if not pid:
            # closed now, as long as their file numbers still belong to them
            for each in (self._selector, self._listener, connection):
                each.close()
            for _, other in self._children.values():
                other.close()
            # a program that kills its own group (such as Ray's reaper when its driver dies) must
            # not kill the group that started the warm process
            os.setsid()
            return True
        for file in request.files:
            os.close(file)
        ended = os.pidfd_open(pid)
        self._children[pid] = (ended, connection)
        self._selector.register(ended, selectors.EVENT_READ, pid)
        self._selector.register(connection, selectors.EVENT_READ, pid)
        send(connection, pid)
        return False

    def _end(self, pid: int, *, hung_up: bool) -> None:
        """Reap a child; kill it first if its client was killed."""
        ended, connection = self._children.pop(pid)
        if hung_up:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        self._selector.unregister(ended)
        self._selector.unregister(connection)
        os.close(ended)
        send(connection, status)
        connection.close()


def send(connection: socket.socket, number: int) -> None:
    """Write a line to a client that may have ended."""
    try:
        connection.sendall(f"{number}\n".encode())
    except OSError:
        return


def receive(connection: socket.socket) -> Request | None:
    """Read a request; return None if the client has ended."""
    head, files, _, _ = socket.recv_fds(connection, 8, MOST_FILES)
    if len(head) < 8:
        return None
    left = int.from_bytes(head, "big")
    parts = []
    while left:
        part = connection.recv(left)
        if not part:
            return None
        parts.append(part)
        left -= len(part)
    return Request(json.loads(b"".join(parts)), files)


def become(request: Request) -> None:
    """Take over the client's open files, environment, folder and priority."""
    numbers = request.body["files"]
    parked = [os.dup2(file, HIGH + n) for n, file in enumerate(request.files)]
    os.closerange(0, HIGH)
    for file, number in zip(parked, numbers, strict=True):
        os.dup2(file, number, inheritable=True)
        os.close(file)
    os.environ.clear()
    os.environ.update(request.body["env"])
    os.chdir(request.body["cwd"])
    os.umask(request.body["umask"])
    os.setpriority(os.PRIO_PROCESS, 0, request.body["nice"])
    # as Python does when it starts; a shell may have started the warm process in the background
    interruptible = request.body["interruptible"]
    signal.signal(signal.SIGINT, signal.default_int_handler if interruptible else signal.SIG_IGN)
    sys.executable = request.body["executable"]
    _reseed()
    import multiprocessing

    multiprocessing.set_executable(sys.executable)
    # reopened, since a stream remembers whether it can seek: files and pipes may have been swapped
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # noqa: SIM115  as long as the process
    for number, name, errors in ((1, "stdout", "strict"), (2, "stderr", "backslashreplace")):
        stream = open(number, "w", buffering=1, errors=errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    for entry in reversed(os.environ.get("PYTHONPATH", "").split(os.pathsep)):
        if entry and entry not in sys.path:
            sys.path.insert(0, entry)


def _reseed() -> None:
    """Reseed numpy, as forks would draw the same numbers; `random` handles that itself."""
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()


def run(argv: list[str]) -> None:
    """Run a program as `python *argv` does, for a script, `-m` and `-c`."""
    import runpy

    rest = list(argv)
    while rest and rest[0].startswith("-") and rest[0] not in ("-c", "-m"):
        if rest.pop(0) in ("-X", "-W"):
            rest.pop(0)
    if not rest:
        sys.exit("the warm Python process runs only programs: give a script, -m or -c")
    kind = rest.pop(0)
    if kind == "-c":
        code = rest.pop(0)
        sys.argv = ["-c", *rest]
        sys.path.insert(0, "")
        exec(compile(code, "<string>", "exec"), sys.modules["__main__"].__dict__)
    elif kind == "-m":
        sys.argv = rest
        sys.path.insert(0, str(Path.cwd()))
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [kind, *rest]
        sys.path.insert(0, str(Path(kind).resolve().parent))
        runpy.run_path(kind, run_name="__main__")


def main() -> None:
    """Import the modules, print that the process is ready, and serve requests."""
    folder, when, *modules = sys.argv[1:]
    sys.path.pop(0)
    server = Server(Path(folder))
    if when == "lazy":
        print("ready", flush=True)
        server.wait()
    for module in modules:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    if when == "eager":
        print("ready", flush=True)
    request = server.serve()
    become(request)
    run(request.body["argv"])


if __name__ == "__main__":
    main()
