"""Messages that C libraries write to standard error without naming the file."""

import os
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager

from docagent_rl.documents.settings import DocumentError

_ERROR_OUTPUT = 2
_LONGEST = 200


@contextmanager
def native_messages() -> Generator[None]:
    """Capture what the block writes to standard error, and add its last line to a `DocumentError`.

    libtiff and others write there about files that they then read after all, or fail on, and a user
    cannot tell which. Only for processes with one thread.
    """
    sys.stderr.flush()
    kept = os.dup(_ERROR_OUTPUT)
    with tempfile.TemporaryFile() as messages:
        os.dup2(messages.fileno(), _ERROR_OUTPUT)
        try:
            yield
        except DocumentError as error:
            sys.stderr.flush()
            if message := _last_line(messages.fileno()):
                raise type(error)(f"{error}; {message}") from error
            raise
        finally:
            sys.stderr.flush()
            os.dup2(kept, _ERROR_OUTPUT)
            os.close(kept)


def _last_line(messages: int) -> str:
    text = os.pread(messages, os.fstat(messages).st_size, 0).decode("utf-8", errors="replace")
    lines = [line for line in text.splitlines() if line.strip()]
    return " ".join(lines[-1].split())[:_LONGEST] if lines else ""
