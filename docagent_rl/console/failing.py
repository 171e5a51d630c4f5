"""The reason of a failure, in one line."""

from __future__ import annotations

from docagent_rl.base.text import clean

_LONGEST = 300


def reason(error: BaseException) -> str:
    """Return the message of an error, without the tracebacks that Ray adds to errors of tasks."""
    first: object = error
    # a worker's error is the cause of the trainer's, which is the cause of ours
    while isinstance(cause := getattr(first, "cause", None), BaseException):
        first = cause
    lines = [line.strip() for line in clean(str(first)).splitlines() if line.strip()]
    if not lines:
        return type(first).__name__
    said = lines[-1] if any(line.startswith("Traceback") for line in lines) else lines[0]
    shown = said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…"
    name = type(first).__name__
    return shown if shown.startswith(name) else f"{name}: {shown}"
