"""tools/setup.sh on a project of one small package, with real uv and no network."""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
OWN_UV = ROOT / ".venv" / "tool" / "bin" / "uv"
BACKEND = """
import zipfile

def build_editable(folder, config_settings=None, metadata_directory=None):
    name = "project-1.0-py3-none-any.whl"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        for file, text in {
            "METADATA": "Metadata-Version: 2.1\\nName: project\\nVersion: 1.0\\n",
            "WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
            "RECORD": "",
        }.items():
            wheel.writestr(f"project-1.0.dist-info/{file}", text)
    return name
"""
PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "project"
version = "1.0"
"""


def small_wheel(folder: Path) -> str:
    """Write a wheel of `gadget` 1.0; return its SHA-256."""
    folder.mkdir()
    path = folder / "gadget-1.0-py3-none-any.whl"
    about = "gadget-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("gadget.py", "value = 7\n")
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: gadget\nVersion: 1.0\n")
        wheel.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{about}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def project(tmp_path) -> Path:
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "setup.sh", tmp_path / "tools")
    (tmp_path / "requirements").mkdir()
    for file in ("build.txt", "uv.txt"):
        (tmp_path / "requirements" / file).write_text("")
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "backend.py").write_text(BACKEND)
    (tmp_path / ".venv").mkdir()
    return tmp_path


def set_up(project: Path, pin: str, **environment: str) -> subprocess.CompletedProcess[str]:
    uv = OWN_UV if OWN_UV.exists() else shutil.which("uv")
    if uv is None:
        pytest.skip("uv is missing")
    (project / "requirements" / "cpu.txt").write_text(f"# pins\n{pin}\n")
    tools = project / "bin"
    tools.mkdir()
    (tools / "uv").symlink_to(uv)
    (tools / "pdftoppm").write_text("#!/bin/sh\n")  # else set-up installs it
    (tools / "pdftoppm").chmod(0o755)
    places = {"UV_CACHE_DIR": str(project / "cache"), "UV_FIND_LINKS": str(project / "wheels")}
    places |= {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "PYTHON": sys.executable}
    environment |= {**places, "UV_NO_INDEX": "1", "UV_OFFLINE": "1"}
    return subprocess.run(
        [project / "tools" / "setup.sh"], env=environment, capture_output=True, text=True
    )


def installed(project: Path) -> bool:
    return any((project / ".venv").glob("lib/python3*/site-packages/gadget.py"))


def test_a_file_with_its_hash_is_installed_and_compiled(project):
    digest = small_wheel(project / "wheels")
    pin = f"gadget==1.0 --hash=sha256:{'0' * 64} --hash=sha256:{digest}"
    done = set_up(project, pin, PYTHONDONTWRITEBYTECODE="1")
    assert done.returncode == 0, done.stderr
    assert installed(project)
    assert (project / ".venv" / ".docagent-rl-set-up").is_file()
    assert any((project / ".venv").glob("lib/python3*/site-packages/__pycache__/gadget.*.pyc"))


def test_a_file_without_its_hash_is_refused(project):
    small_wheel(project / "wheels")
    done = set_up(project, f"gadget==1.0 --hash=sha256:{'0' * 64}")
    assert (done.returncode, installed(project)) == (2, False)
    assert "requirements/cpu.txt" in done.stderr
