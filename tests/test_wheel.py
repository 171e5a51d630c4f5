"""The wheel and the source distribution: what `make wheel` builds has all that runs need."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from docagent_rl import __version__
from docagent_rl.checks.recipe_list import recipe_names

ROOT = Path(__file__).parents[1]
NOT_SHIPPED = ("frontend", "__pycache__")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder with both, built without network."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built) -> dict[str, bytes]:
    """The files of the wheel."""
    (path,) = built.glob("*.whl")
    assert path.name == f"docagent_rl-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def shipped(folder: str) -> set[str]:
    """Every file of a package by its place in the wheel, those behind its links too."""
    found = set()
    links = ("recipes", "patches") if folder == "docagent_rl" else ()
    for root in (ROOT / folder, *(ROOT / folder / link for link in links)):
        paths = (each for each in root.resolve().rglob("*") if each.is_file())
        names = (each.relative_to(root.resolve()) for each in paths)
        base = root.relative_to(ROOT)
        found |= {
            (base / name).as_posix()
            for name in names
            if not {*NOT_SHIPPED} & {*name.parts} and name.suffix != ".pyc"
        }
    return found


def metadata(wheel: dict[str, bytes]) -> Message:
    return Parser().parsestr(wheel[f"docagent_rl-{__version__}.dist-info/METADATA"].decode())


def test_the_wheel_has_every_file_of_the_packages_and_nothing_else(wheel):
    wanted = shipped("docagent_rl") | shipped("hydra_plugins")
    # Python reads it next to the packages, not in one
    wanted = wanted - {"docagent_rl/base/first_line.pth"} | {"docagent_rl_first_line.pth"}
    own = {name for name in wheel if ".dist-info/" not in name}
    assert own == wanted


def test_recipes_types_viewer_and_patches_are_in_it(wheel):
    named = {f"docagent_rl/recipes/{name}.yaml" for name in recipe_names()}
    assert len(named) > 5
    assert named <= wheel.keys()
    patches = {path.name for path in (ROOT / "patches").glob("*.py")}
    assert {f"docagent_rl/patches/{name}" for name in patches} <= wheel.keys()
    static = "docagent_rl/lab/viewer/static/"
    assert {f"{static}{name}" for name in ("index.html", "app.js", "app.css")} <= wheel.keys()
    assert {"docagent_rl/py.typed", "docagent_rl/envs/__init__.pyi"} <= wheel.keys()
    assert not [name for name in wheel if re.match(r"(tests|tools|examples|benchmarks)/", name)]


def test_its_metadata_say_what_the_project_says(wheel):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = metadata(wheel)
    assert found["Version"] == project["version"] == __version__
    assert {*found.get_all("Provides-Extra", [])} == {*project["optional-dependencies"]}
    points = wheel[f"docagent_rl-{__version__}.dist-info/entry_points.txt"].decode()
    assert "docagent-rl = docagent_rl.cli:main" in points
    assert "[verl.plugins]" in points


def test_the_source_distribution_can_be_installed_from_its_pins(built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    pins = {"requirements/cpu.txt", "requirements/gpu.txt", "requirements/build.txt"}
    assert pins <= names
    assert {"pyproject.toml", "CHANGELOG.md", "LICENSE", "docagent_rl/py.typed"} <= names
    recipes = {f"docagent_rl/recipes/{name}.yaml" for name in recipe_names()}
    assert recipes <= names


def test_the_changelog_has_this_version_and_the_citation_too():
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    (date,) = re.findall(rf"^## \[{re.escape(__version__)}\] - (\S+)$", changes, re.MULTILINE)
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {__version__}\n" in citation
    assert f'date-released: "{date}"\n' in citation
