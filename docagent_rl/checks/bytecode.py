"""Whether the packages that every process of a run imports are compiled."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import cache_from_source, find_spec
from pathlib import Path

from docagent_rl.checks.gpu import Finding

LARGE = ("torch", "transformers", "vllm", "ray", "verl")
"""Packages whose modules take seconds to compile."""
_VARIABLE = "PYTHONDONTWRITEBYTECODE"


def check_bytecode(packages: Sequence[str] = LARGE) -> Finding:
    """Look for the compiled form of packages; those that are not installed are passed over."""
    origins = {
        name: spec.origin for name in packages if (spec := find_spec(name)) is not None and spec.origin
    }
    missing = [name for name, origin in origins.items() if not Path(cache_from_source(origin)).exists()]
    if not missing:
        return Finding("compiled")
    folder = Path(origins[missing[0]]).parents[1]
    kept = " and keeps nothing of it (PYTHONDONTWRITEBYTECODE)" if os.environ.get(_VARIABLE) else ""
    return Finding(
        f"{', '.join(missing)} not compiled",
        f"each process of a run compiles what it imports, ten seconds each{kept}: "
        f"python -m compileall -qq -j 0 {folder}",
    )
