"""Hydra composes a recipe with the same overrides once for all processes that share a warm
interpreter, reads each file of a package once, and merges the same list of files once; OmegaConf
parses each interpolation once per process.

Composing a recipe merges some sixty files, most of them verl's, and tests compose hundreds. Only
files of packages are kept, which do not change while tests run; a folder of a test's own is read
each time.
"""

import functools
import hashlib
import os
import pickle
import tempfile
from pathlib import Path

import omegaconf
import pytest
from hydra._internal import config_loader_impl
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import ConfigRepository
from hydra._internal.defaults_list import Overrides
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from omegaconf.grammar_parser import parse

from docagent_rl.checks import recipe_check
from tools.warm.python import WARM

OF_PACKAGES = {"pkg", "structured"}
"""Schemes of the sources that are in packages."""
OF_VERL = str(recipe_check._folder_of_verl())
"""The folder of verl's configurations: Hydra knows it by its path, since verl is not imported."""
FOLDER = (
    Path(os.environ[WARM]).parent if WARM in os.environ else Path(tempfile.mkdtemp())
) / "composed"


def kept(call, key_of):
    """Cache a function's results by `key_of(...)`; each caller gets a copy. Results with the key
    None are not cached.
    """
    folder = FOLDER / call.__qualname__
    folder.mkdir(parents=True, exist_ok=True)
    results: dict[str, bytes] = {}

    @functools.wraps(call)
    def function(*args, **kwargs):
        key = key_of(*args, **kwargs)
        if key is None:
            return call(*args, **kwargs)
        file = folder / hashlib.sha256(key.encode()).hexdigest()
        if key not in results and file.is_file():
            results[key] = file.read_bytes()
        if key in results:
            return pickle.loads(results[key])
        result = call(*args, **kwargs)
        results[key] = pickle.dumps(result, pickle.HIGHEST_PROTOCOL)
        part = file.with_name(f"{file.name}.{os.getpid()}")
        part.write_bytes(results[key])
        part.replace(file)
        return result

    return function


def file_key(repository, config_path):
    """Return the key of a file: the one source that has it, since a package's content does not
    depend on where else Hydra looks.
    """
    found = repository._find_object_source(config_path, ObjectType.CONFIG)
    return _key([found], config_path) if found else None


def list_key(_, defaults, repo):
    return _key(repo.get_sources(), defaults)


def choice_key(repo, config_name, overrides_list, **options):
    return _key(repo.get_sources(), (config_name, overrides_list, options))


def recipe_key(name, overrides):
    elsewhere = any(each.startswith("hydra.") for each in overrides)
    sources = GlobalHydra.instance().config_loader().get_sources()
    return None if elsewhere else _key(sources, (name, overrides))


def _key(sources, what):
    places = [(source.scheme(), source.provider, source.path) for source in sources]
    known = all(scheme in OF_PACKAGES or path == OF_VERL for scheme, _, path in places)
    return repr((what, places)) if known else None


def by_choices(create):
    """Cache by groups alone: they determine the files of which a recipe is composed, and values of
    other keys do not.
    """
    create = kept(create, choice_key)

    @functools.wraps(create)
    def create_defaults_list(repo, config_name, overrides_list, **options):
        values = Overrides(repo, overrides_list).config_overrides
        chosen = [each for each in overrides_list if each not in values]
        found = create(repo, config_name, chosen, **options)
        found.config_overrides = values
        return found

    return create_defaults_list


@pytest.fixture(scope="session", autouse=True)
def _packages_are_read_once():
    merge = "_compose_config_from_defaults_list"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConfigRepository, "load_config", kept(ConfigRepository.load_config, file_key))
        patch.setattr(ConfigLoaderImpl, merge, kept(getattr(ConfigLoaderImpl, merge), list_key))
        create = by_choices(config_loader_impl.create_defaults_list)
        patch.setattr(config_loader_impl, "create_defaults_list", create)
        patch.setattr(recipe_check, "compose", kept(recipe_check.compose, recipe_key))
        parsed = functools.cache(parse)  # trees, which are only read
        for module in (omegaconf.base, omegaconf._utils):
            patch.setattr(module, "parse", parsed)
        yield
