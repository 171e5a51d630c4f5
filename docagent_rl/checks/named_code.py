"""Checks of the user's own classes that verl's keys name.

verl imports most of them in a process of Ray, minutes after the start.
"""

import inspect
from collections.abc import Iterator
from pathlib import Path

import yaml
from omegaconf import DictConfig, OmegaConf

from docagent_rl.base.user_code import import_module, load_source

CLASSES = ("data.custom_cls", "trainer.v1.sampler.custom_sampler")
"""Sections with the `path` and the `name` of a class."""
CALLBACK = "trainer.checkpoint_callback_class"
LIBRARIES = ("actor_rollout_ref.model.external_lib", "critic.model.external_lib")
"""Keys with a module, or a list of modules, that verl imports before it loads a model."""
AGENT_LOOPS = "actor_rollout_ref.rollout.agent.agent_loop_config_path"


def named_code_problems(config: DictConfig) -> Iterator[str]:
    """Import the data set, the sampler, the callback, the libraries and the agent loops of a run.

    Raises:
        UserError: a module cannot be imported.
    """
    for section in CLASSES:
        yield from _class_problems(config, section)
    if (callback := OmegaConf.select(config, CALLBACK)) is not None:
        yield from _reference_problems(str(callback), f"{CALLBACK}={callback}")
    for key in LIBRARIES:
        given = OmegaConf.select(config, key)
        for name in [given] if isinstance(given, str) else given or ():
            import_module(str(name), f"{key}={name}")
    if (file := OmegaConf.select(config, AGENT_LOOPS)) is not None:
        yield from _agent_loop_problems(Path(str(file)))


def _class_problems(config: DictConfig, section: str) -> Iterator[str]:
    """Find a class by the path of its file or module, and by its name."""
    path = OmegaConf.select(config, f"{section}.path")
    name = OmegaConf.select(config, f"{section}.name")
    if path is None and name is None:
        return
    if path is None or name is None:
        given, missing = ("name", "path") if path is None else ("path", "name")
        yield f"{section}.{given} is set without {section}.{missing}: set both, or neither"
        return
    module = load_source(str(path), f"{section}.path={path}")
    if not inspect.isclass(getattr(module, str(name), None)):
        classes = [each for each, _ in inspect.getmembers(module, inspect.isclass)]
        defined = ", ".join(classes) if classes else "no classes"
        yield f"{section}.name={name}: {path} defines no such class; it has {defined}"


def _reference_problems(reference: str, named: str) -> Iterator[str]:
    """Find a class by its reference `package.module.Class`."""
    module, _, name = reference.rpartition(".")
    if not module:
        yield f"{named}: expected package.module.Class"
    elif not hasattr(import_module(module, named), name):
        yield f"{named}: the module {module} does not define {name}"


def _agent_loop_problems(file: Path) -> Iterator[str]:
    """Read a file that lists agent loops, and import each."""
    named = f"{AGENT_LOOPS}={file}"
    example = "a list with entries such as {name: mine, _target_: package.module.Class}"
    if not file.is_file():
        yield f"{named}: there is no such file; it contains {example}"
        return
    try:
        loops = yaml.safe_load(file.read_bytes())
    except yaml.YAMLError as error:
        yield f"{named} cannot be read as YAML: {' '.join(str(error).split())}"
        return
    for loop in loops if isinstance(loops, list) else [None]:
        if not (isinstance(loop, dict) and {"name", "_target_"} <= loop.keys()):
            yield f"{named}: expected {example}"
            return
        yield from _reference_problems(
            str(loop["_target_"]), f"{named}: agent loop {loop['name']}: {loop['_target_']}"
        )
