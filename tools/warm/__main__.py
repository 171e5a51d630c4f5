"""Run a command whose tests share one warm interpreter: `python -m tools.warm make lint fast`.

The interpreter does its imports while the first part of the command runs. Tests find it in
`WARM_PYTHON`, and the original interpreter in `COLD_PYTHON`.
"""

from __future__ import annotations

import os
import subprocess
import sys

from tools.warm.python import COLD, WARM, WarmPython


def main() -> int:
    """Run the command, and return its exit status."""
    with WarmPython(lazy=True) as warm:
        first = subprocess.Popen([warm.executable, "-c", ""])
        done = subprocess.run(
            sys.argv[1:],
            env={**os.environ, WARM: str(warm.executable), COLD: sys.executable},
            check=False,
        )
        first.kill()
        first.wait()
        return done.returncode


if __name__ == "__main__":
    sys.exit(main())
