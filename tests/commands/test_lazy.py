import subprocess
import sys

import pytest
from typer import Context
from typer.main import get_command
from typer.testing import CliRunner

from docagent_rl import cli
from docagent_rl.commands.lazy import COMMANDS

HEAVY = {
    "bm25s",
    "hydra",
    "numba",
    "numpy",
    "omegaconf",
    "pandas",
    "pyarrow",
    "pydantic",
    "pypdf",
    "torch",
}
COUNT = """
import sys
from docagent_rl.cli import app
try:
    app(sys.argv[1:])
except SystemExit:
    print("modules:", *sys.modules, file=sys.stderr)
"""


def modules(*arguments):
    """Return the modules that a command line imports."""
    command = [sys.executable, "-c", COUNT, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stderr.partition("modules:")[2].split())


def test_help_imports_no_command_and_a_command_itself_alone():
    imported = modules("--help")
    assert not HEAVY & imported
    assert len(imported) < 500
    assert not [name for name in imported if name.startswith("docagent_rl.commands.view")]
    imported = modules("view", "--help")
    assert "docagent_rl.commands.view" in imported
    assert not {"docagent_rl.commands.data", "bm25s"} & imported
    assert not {"openai", "torch", "ray"} & modules("data", "--help")


LIBRARIES = {"torch", "verl", "vllm", "transformers", "ray", "pypdfium2"}
DEAD = ["--base-url", "http://127.0.0.1:1/v1", "--model", "m"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["ask", "report.pdf", "Who?", *DEAD],
        ["eval", "vrag_rl_qwen2_5_vl_7b", "--data", "gone.jsonl", "--out", "out", *DEAD],
        ["probe", "vrag_rl_qwen2_5_vl_7b", "--data", "gone.jsonl", "--out", "out", *DEAD],
    ],
)
def test_an_endpoint_that_is_down_is_named_before_anything_else_is_imported_or_read(
    arguments, tmp_path
):
    code = (
        "import sys\nfrom docagent_rl.cli import main\ntry:\n    main()\n"
        "finally:\n    print('modules:', *sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=tmp_path
    )
    said, _, imported = done.stderr.partition("modules:")
    assert done.returncode == 2
    assert "http://127.0.0.1:1/v1: nothing listens there" in " ".join(said.split())
    assert not LIBRARIES & set(imported.split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_has_the_first_line_of_the_command_and_its_help_has_an_example(name):
    group = get_command(cli.app)
    _, own, _ = group.resolve_command(Context(group), [name])
    assert (own.help or "").splitlines()[0] == COMMANDS[name]
    assert CliRunner().invoke(cli.app, [name, "--help"]).exit_code == 0
    for part, each in getattr(own, "commands", {"": own}).items():
        assert f"docagent-rl {name} {part}".strip() in each.help
        assert "\n" not in each.help.replace("\n\n", "")  # the terminal wraps it


def test_a_command_that_is_none_is_refused_with_the_nearest():
    done = CliRunner().invoke(cli.app, ["igest"])
    assert (done.exit_code, "ingest" in done.output) == (2, True)
