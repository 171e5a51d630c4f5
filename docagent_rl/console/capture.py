"""The output of a process in a file; it works on file descriptors, so C libraries are included."""

from __future__ import annotations

import io
import os
import re
import sys
import time
from pathlib import Path
from typing import TextIO

from docagent_rl.base.text import visible

LOG = "console.log"
_READ = 1 << 16
_WIDTH = 200
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class Capture:
    """Redirects standard output and standard error of this process to a file.

    The process writes to the file directly, so nothing is lost if it is killed. An existing file,
    that of a resumed run, is appended to.

    Args:
        path: the file; its folder is created.
        heading: a line that identifies this start of the run.
    """

    def __init__(self, path: Path, heading: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        self.path = path
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self.out = _copy(1, sys.stdout)
        """The original standard output."""
        self.err = _copy(2, sys.stderr)
        """The original standard error."""
        moment = time.strftime("%Y-%m-%d %H:%M:%S")
        os.write(log, f"=== {moment} {heading}\n".encode(errors="backslashreplace"))
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                # keep the order of the two streams, even if the process is killed
                stream.reconfigure(line_buffering=True, errors="backslashreplace")

    def tail(self, lines: int) -> list[str]:
        """Return the last non-empty lines of the file as a terminal would show them."""
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        try:
            with self.path.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _READ))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return []
        # a progress bar redraws its line: only its last state counts
        seen = [_COLOURS.sub("", line).rpartition("\r")[2].rstrip() for line in text.split("\n")]
        return [visible(line[:_WIDTH]) for line in seen if line][-lines:]


def _copy(number: int, stream: TextIO) -> TextIO:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return os.fdopen(os.dup(number), "w", buffering=1, encoding=encoding, errors="backslashreplace")
