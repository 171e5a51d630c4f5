"""Memory that this process may still take."""

from __future__ import annotations

import resource
from pathlib import Path

_GIB = 1 << 30


def require(gib: float) -> None:
    """Fail now where libraries would later: some wait for ever for memory that a limit keeps from them.

    Raises:
        MemoryError: The limit of this process (`docagent_rl.documents.limits`) leaves less than `gib` GiB.
    """
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most == resource.RLIM_INFINITY:
        return
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    if most - pages * resource.getpagesize() < gib * _GIB:
        raise MemoryError(f"{gib:g} GiB of memory are needed")
