"""Hydra reads each file of a package once a process, and merges the same list of files once.

Composing a recipe merges some sixty files, most of them verl's, and tests compose hundreds. Only files of
packages are kept, which do not change while tests run; a folder of a test's own is read each time.
"""

from __future__ import annotations

import functools
import pickle

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import ConfigRepository

OF_PACKAGES = {"pkg", "structured"}


def kept(call, key_of):
    """Keep a method's results by `key_of(...)`; each caller gets a copy. A key of None keeps nothing."""
    results: dict[str, bytes] = {}

    @functools.wraps(call)
    def method(self, *args, **kwargs):
        key = key_of(self, *args, **kwargs)
        if key is None:
            return call(self, *args, **kwargs)
        if key not in results:
            results[key] = pickle.dumps(call(self, *args, **kwargs), pickle.HIGHEST_PROTOCOL)
        return pickle.loads(results[key])

    return method


def file_key(repository, config_path):
    return _key(repository, config_path)


def list_key(_, defaults, repo):
    return _key(repo, defaults)


def _key(repository, what):
    sources = [(source.scheme(), source.provider, source.path) for source in repository.get_sources()]
    return repr((what, sources)) if {scheme for scheme, *_ in sources} <= OF_PACKAGES else None


@pytest.fixture(scope="session", autouse=True)
def _packages_are_read_once():
    with pytest.MonkeyPatch.context() as patch:
        for owner, name, key_of in (
            (ConfigRepository, "load_config", file_key),
            (ConfigLoaderImpl, "_compose_config_from_defaults_list", list_key),
        ):
            patch.setattr(owner, name, kept(getattr(owner, name), key_of))
        yield
