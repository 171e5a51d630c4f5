"""Keys of remote services, which come from the environment and from nowhere else."""

from __future__ import annotations

import os

from docagent_rl.errors import UserError

NO_KEY = "none"
"""What is sent to servers that ask for no key."""


def read_api_key(variable: str | None, setting: str) -> str:
    """The key in an environment variable; `NO_KEY` when no variable is named.

    Args:
        variable: name of the variable.
        setting: the configuration key that names it, for the message.

    Raises:
        UserError: the variable is not set.
    """
    if variable is None:
        return NO_KEY
    key = os.environ.get(variable)
    if not key:
        raise UserError(f"{setting}: the environment variable {variable} is not set")
    return key
