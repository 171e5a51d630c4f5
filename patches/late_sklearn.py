"""transformers does not import scikit-learn until assisted generation needs it.

Upstream: transformers 5.9.0, `generation/candidate_generator.py`. The module imports
`sklearn.metrics` (with scipy.stats and pandas) for one function of assisted generation if
scikit-learn is installed, which it is with sentence-transformers. Every process of a run imports
that module, and none uses assisted generation: this takes 1.2 s per process, of which a run has a
dozen.

Here `is_sklearn_available` returns False while that module is being executed; then the module gets
the original function, and a `roc_curve` that imports scikit-learn when it is called.

No longer needed once transformers imports scikit-learn within that function.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from docagent_rl.training.patching import TRAINING, Patch, on_import, replace

USER = "transformers.generation.candidate_generator"


def _is_being_executed(name: str) -> bool:
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


def _apply(module: ModuleType) -> None:
    available = module.is_sklearn_available

    def is_sklearn_available() -> bool:
        return not _is_being_executed(USER) and available()

    def mend(user: ModuleType) -> None:
        vars(user)["is_sklearn_available"] = available
        if not hasattr(user, "roc_curve") and available():
            vars(user)["roc_curve"] = _roc_curve

    replace(module, "is_sklearn_available", is_sklearn_available)
    on_import(USER, mend)


def _roc_curve(*args: Any, **options: Any) -> Any:
    from sklearn.metrics import roc_curve

    return roc_curve(*args, **options)


PATCH = Patch(
    name="late_sklearn",
    package="transformers",
    versions="==5.9.0",
    reference="transformers/generation/candidate_generator.py, import of sklearn.metrics",
    reason="every process of a run imports scikit-learn, scipy.stats and pandas without using them",
    target_module="transformers.utils",
    apply=_apply,
    processes=TRAINING,
)
