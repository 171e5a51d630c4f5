"""Conversion of office files to PDFs with LibreOffice."""

import shutil
import signal
import socket
import subprocess
import time
import zipfile
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from docagent_rl.base.errors import UserError
from docagent_rl.documents.settings import DocumentError, RetryableDocumentError
from docagent_rl.documents.workers import begin_part

_ZIPPED = frozenset({".docx", ".odt", ".pptx", ".odp", ".xlsx", ".ods"})
_OLDER = frozenset({".doc", ".rtf", ".ppt", ".xls"})
OFFICE_SUFFIXES = _ZIPPED | _OLDER
_COMPOUND = b"\xd0\xcf\x11\xe0"
"""First bytes of Office's older files, and of newer files with a password."""
_RICH = b"{\\rtf"
"""First bytes of rich text."""
_PROGRAM = "soffice"
_MOST_S = 300
"""Maximum processor time for a file, in seconds."""
_WAITED = 10
"""Multiple of `_MOST_S` after which LibreOffice counts as stuck."""
_LOOK_S = 0.05
_KILLS = (signal.SIGXCPU, signal.SIGKILL)
_ENDED = {-number for number in _KILLS} | {128 + number for number in _KILLS}
"""Exit statuses of a program that was killed for its time or memory, or of a script running it."""
# macros are disabled, and references to other places are not fetched
_SETTINGS = """<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry">
<item oor:path="/org.openoffice.Office.Common/Security/Scripting">
<prop oor:name="BlockUntrustedRefererLinks" oor:op="fuse"><value>true</value></prop></item>
<item oor:path="/org.openoffice.Office.Common/Security/Scripting">
<prop oor:name="DisableMacrosExecution" oor:op="fuse"><value>true</value></prop></item>
</oor:items>
"""


def missing_office() -> str | None:
    """Return what to do if LibreOffice is not installed, or None if it is."""
    if shutil.which(_PROGRAM):
        return None
    return (
        "an office file has to be converted to a PDF, but LibreOffice (soffice) is not on the PATH "
        f"of {socket.gethostname()}: install it, or put a PDF of the same name next to the file"
    )


def print_office(path: Path, target: Path) -> None:
    """Convert a file to the PDF `target` with LibreOffice, in a profile of its own.

    Raises:
        DocumentError: LibreOffice cannot read the file.
        RetryableDocumentError: LibreOffice needs more than five minutes of processor time or more
            memory than there is, or is not installed.
        UserError: Temporary files cannot be written.
    """
    if problem := missing_office():
        raise RetryableDocumentError(problem)
    _check(path)
    try:
        with TemporaryDirectory() as name:
            folder = Path(name)
            written = _converted(path, folder)
            # appear whole or not at all
            half = target.with_name(f".{target.name}.tmp")
            shutil.copyfile(written, half)
            half.replace(target)
    except OSError as error:
        raise UserError(
            f"LibreOffice cannot be used on {socket.gethostname()} ({error})"
        ) from error


def _check(path: Path) -> None:
    """Refuse files that LibreOffice would take for plain text and convert as such."""
    with path.open("rb") as file:
        head = file.read(5)
    is_compound = head.startswith(_COMPOUND)
    is_zip = zipfile.is_zipfile(path)
    if path.suffix.lower() in _ZIPPED:
        if is_compound:
            raise DocumentError("encrypted: it asks for a password; save it without one")
        is_sound = is_zip
    else:
        is_sound = is_compound or is_zip or head == _RICH
    if not is_sound:
        raise DocumentError(f"damaged, truncated or not a {path.suffix} file")


def _converted(path: Path, folder: Path) -> Path:
    user = folder / "profile" / "user"
    user.mkdir(parents=True)
    (user / "registrymodifications.xcu").write_text(_SETTINGS, encoding="utf-8")
    # a copy, since the file's own name might be read as an option
    given = folder / f"document{path.suffix.lower()}"
    shutil.copyfile(path, given)
    profile = f"-env:UserInstallation={(folder / 'profile').as_uri()}"
    options = [
        "--headless",
        "--norestore",
        "--nologo",
        "--convert-to",
        "pdf",
        "--outdir",
        str(folder),
    ]
    with (folder / "output").open("w+", errors="replace") as output:
        # `soffice` is a script: the limit also holds for what it starts
        limited = ["sh", "-c", f'ulimit -t {_MOST_S} && exec "$@"', "sh"]
        command = [*limited, _PROGRAM, profile, *options, str(given)]
        status = _finished(subprocess.Popen(command, stdout=output, stderr=output))
        output.seek(0)
        lines = [line.strip() for line in output if line.strip()]
    written = given.with_suffix(".pdf")
    if status or not written.is_file():  # its status is 0 even on files that it cannot read
        raise DocumentError(
            f"LibreOffice cannot convert it to a PDF ({'; '.join(lines[-2:]) or status})"
        )
    return written


def _finished(process: subprocess.Popen[bytes]) -> int:
    """Wait for LibreOffice and return its status; kill it if it takes too long."""
    end = time.monotonic() + _WAITED * _MOST_S
    try:
        while time.monotonic() < end:
            begin_part("its pages")
            with suppress(subprocess.TimeoutExpired):
                status = process.wait(_LOOK_S)
                if status in _ENDED:
                    raise RetryableDocumentError(
                        f"LibreOffice took more than {_MOST_S} s of processor time, or was killed"
                    )
                return status
        raise RetryableDocumentError(f"LibreOffice did not end within {_WAITED * _MOST_S} s")
    finally:
        process.kill()
        process.wait()
