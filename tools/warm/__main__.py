"""Run a command whose tests share one warm interpreter: `python -m tools.warm make lint fast`.

The warm interpreter does its imports while the command starts. Tests find its path in the variable
`WARM_PYTHON`, and that of the original interpreter in `COLD_PYTHON`.
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
