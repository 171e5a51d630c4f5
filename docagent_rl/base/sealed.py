"""JSON files that end with the SHA-256 of all that stands before it."""

from __future__ import annotations

import hashlib
import re

_SEAL = re.compile(rb',\n"checksum": "([0-9a-f]{64})"\n\}\n')
_LENGTH = len(b',\n"checksum": ""\n}\n') + 64


def seal(json_object: str) -> str:
    """A JSON object with at least one member, as printed, with one more: its `checksum`."""
    body = json_object.rstrip().removesuffix("}").rstrip()
    return f'{body},\n"checksum": "{_digest(body.encode("utf-8"))}"\n}}\n'


def is_sealed(data: bytes) -> bool:
    """Whether a file carries a checksum; files of earlier versions have none.

    Raises:
        ValueError: The checksum is that of other bytes.
    """
    found = _SEAL.fullmatch(data[-_LENGTH:])
    if found is None:
        # a whole seal ends the file; another place or form is damage
        if b'"checksum"' in data[-2 * _LENGTH :]:
            raise ValueError("its checksum is broken")
        return False
    if _digest(data[:-_LENGTH]) != found[1].decode("ascii"):
        raise ValueError("its checksum is that of other bytes")
    return True


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
