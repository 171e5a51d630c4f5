"""How one try of a search at a service fails."""

from __future__ import annotations


class ServiceFailedError(OSError):
    """A service took a search and did not bring it to an end, or answered what cannot be used.

    Args:
        message: what happened.
        retry_after_s: seconds that the service asks to wait.
    """

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class NotTakenError(ServiceFailedError):
    """A service did not take a search: it is busy, starting again, or cannot be reached."""


class BusyError(Exception):
    """As many searches wait at a service as may.

    Args:
        retry_after_s: seconds after which to come again.
    """

    def __init__(self, retry_after_s: float) -> None:
        super().__init__(f"as many searches wait as may: come again in {retry_after_s:g} s")
        self.retry_after_s = retry_after_s


class ServerFaultError(ServiceFailedError):
    """An error inside a service: its own fault, or that of what it was asked."""
