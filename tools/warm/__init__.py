"""Start Python processes with their imports already done, as forks of one warm process.

A run of the trainer starts a dozen processes, one after the other, and each spends most of its
start on the same imports. Under `WarmPython`, each is a fork of a process that has already imported
everything. Nothing in verl, Ray or vLLM is replaced: they start `sys.executable`, which is then a
small client of the warm process.
"""

from __future__ import annotations

from tools.warm.python import WarmPython

__all__ = ["WarmPython"]
