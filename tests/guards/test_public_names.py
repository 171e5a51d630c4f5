"""Promises to those who extend the package: names stay, describe themselves, and are typed."""

from importlib import import_module
from importlib.resources import files

from tools.public_names import FILE, PACKAGES, public_names


def test_names_and_parameters_change_on_purpose_alone():
    kept = FILE.read_text(encoding="utf-8")
    assert public_names() == kept, (
        "run `python -m tools.public_names`, and see what changes for users"
    )


def test_each_name_says_what_it_is():
    silent = []
    for package in map(import_module, (f"docagent_rl.{name}" for name in PACKAGES)):
        values = {name: getattr(package, name) for name in package.__all__}
        silent += [
            name for name, value in values.items() if isinstance(value, type) and not value.__doc__
        ]
    assert silent == []


def test_type_checkers_find_the_types():
    package = files("docagent_rl")
    assert package.joinpath("py.typed").is_file()
    assert package.joinpath("envs", "__init__.pyi").is_file()
