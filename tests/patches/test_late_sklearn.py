from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import transformers.utils as upstream
from sklearn.metrics import roc_curve

from docagent_rl.patches.late_sklearn import USER

pytestmark = pytest.mark.slow

LOOK = f"""
import sys
import {USER} as user
print("sklearn" in sys.modules, user.is_sklearn_available())
"""
INSTALL = """
from docagent_rl.training.patching import install
from docagent_rl.patches.late_sklearn import PATCH
install([PATCH])
"""


def look(before: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", before + LOOK], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_upstream_still_imports_it():
    assert look("") == ["True", "True"]


def test_it_is_not_imported_and_counts_as_there():
    assert look("import verl\n" + INSTALL) == ["False", "True"]


def test_the_function_is_there_when_it_is_called():
    import transformers.generation.candidate_generator as user

    labels, scores = np.array([0, 0, 1, 1]), np.array([0.1, 0.4, 0.35, 0.8])
    for ours, theirs in zip(user.roc_curve(labels, scores), roc_curve(labels, scores), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert upstream.is_sklearn_available()
