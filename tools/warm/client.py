"""A replacement for `python` that asks the warm process for a fork, and runs until the fork ends.

It passes on its arguments, environment, folder, priority, open files and signals, and exits with
the fork's status. It imports only small modules of the standard library, since it is started for
every process.
"""

import json
import os
import signal
import socket
import sys

PASSED_ON = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)


def open_files(own: int) -> list[int]:
    """Return the numbers of the files that a new program would inherit."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        try:
            if number != own and os.get_inheritable(number):
                found.append(number)
        except OSError:
            continue  # the handle of the folder itself
    return sorted(found)


def main() -> None:
    """Run one program in a fork of the warm process."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.path.join(os.path.dirname(os.path.abspath(__file__)), "socket"))
    files = open_files(connection.fileno())
    umask = os.umask(0)
    os.umask(umask)
    request = {
        "argv": sys.argv[1:],
        "executable": os.path.abspath(__file__),
        "env": dict(os.environ),
        "cwd": os.getcwd(),
        "umask": umask,
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "interruptible": signal.getsignal(signal.SIGINT) is not signal.SIG_IGN,
        "files": files,
    }
    body = json.dumps(request).encode()
    socket.send_fds(connection, [len(body).to_bytes(8, "big")], files)
    connection.sendall(body)
    replies = connection.makefile("r")
    pid = int(replies.readline() or 0)
    if not pid:
        sys.exit("the warm Python process has ended")
    for number in PASSED_ON:
        signal.signal(number, lambda received, _: os.kill(pid, received))
    status = int(replies.readline() or 9)
    if os.WIFSIGNALED(status):
        if os.WTERMSIG(status) != signal.SIGKILL:
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
