"""What became of a case."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from docagent_rl.errors import InfrastructureError, UserError

_LONGEST_MESSAGE = 4000
_UNCLEAR = re.compile(r"Traceback \(most recent|<[\w.]+ object at 0x|^\s*$")


class Outcome(StrEnum):
    """The columns of the table."""

    REFUSED = "refused with a clear error"
    RIGHT = "survived and right"
    BAD = "bad"


class Fault(StrEnum):
    """How a case can be bad."""

    RAW = "raw exception"
    UNCLEAR = "unclear message"
    WRONG = "wrong result without a word"
    HANG = "hang"
    MEMORY = "memory"
    CRASH = "the process died"
    LEFTOVER = "something left over"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a case; `fault` is there for a bad one alone."""

    outcome: Outcome
    detail: str = ""
    fault: Fault | None = None

    def __post_init__(self) -> None:
        if (self.outcome is Outcome.BAD) != (self.fault is not None):
            raise ValueError(f"{self.outcome} with fault {self.fault}")


def right(detail: str = "") -> Verdict:
    """The case did no harm: what came out is what has to."""
    return Verdict(Outcome.RIGHT, detail)


def bad(fault: Fault, detail: str) -> Verdict:
    return Verdict(Outcome.BAD, detail, fault)


def refused(message: str, *names: str) -> Verdict:
    """Refused by a message, which has to be a clear one and to contain one of `names`, if there are any."""
    if _UNCLEAR.search(message) or len(message) > _LONGEST_MESSAGE:
        return bad(Fault.UNCLEAR, message[:_LONGEST_MESSAGE])
    if names and not any(name in message for name in names):
        return bad(Fault.UNCLEAR, f"none of {', '.join(names)} is named: {message}")
    return Verdict(Outcome.REFUSED, message)


def judged(attempt: Callable[[], Verdict], *names: str) -> Verdict:
    """The verdict of `attempt`; the errors that users are told are refusals, others are bad."""
    try:
        return attempt()
    except (UserError, InfrastructureError) as error:
        return refused(str(error), *names)
    except Exception:  # whatever escapes is what the campaign looks for
        return bad(Fault.RAW, traceback.format_exc())
