"""A type checker finds the mistakes in a user's system."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = (ROOT / "examples" / "custom_system.py").read_text(encoding="utf-8")
MISTAKES = {
    "a setting that the configuration does not have": (
        "brevity = self._config.brevity",
        "brevity = self._config.briefness",
    ),
    "something that the state does not keep": (
        "state.answer = action.text",
        "state.reply = action.text",
    ),
    "a dictionary in place of an effect": (
        "logged.effect = NoNewPage(hits=0)",
        'logged.effect = {"kind": "no_new_page"}',
    ),
    "a number in place of an outcome": (
        "return await self.judge(logged, references(state.sample), action.text)",
        "return 1.0",
    ),
    "a grammar for another configuration": (
        "def make_grammar(config: OneLookConfig)",
        "def make_grammar(config: Sample)",
    ),
    "an environment of another configuration": (
        "config_type=OneLookConfig",
        "config_type=OtherConfig",
    ),
    "a system without its environment": ("    env=OneLookEnv,\n", ""),
    "arguments without their names": ('    name="one_look",\n', '    "one_look",\n'),
}
OTHER = (
    '\n\nclass OtherConfig(BaseModel, extra="forbid"):\n    """Somebody else\'s."""\n\n\nSYSTEM ='
)


@pytest.mark.slow
def test_each_mistake_is_found(tmp_path):
    example = EXAMPLE.replace("\n\nSYSTEM =", OTHER)
    files = {"right": example}
    for number, (right, wrong) in enumerate(MISTAKES.values()):
        assert example.count(right) == 1
        files[f"mistake_{number}"] = example.replace(right, wrong)
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    command = [Path(sys.executable).with_name("ty"), "check", "--output-format", "concise"]
    command += ["--python", sys.prefix, "--project", tmp_path, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = set(re.findall(r"^(?:.*/)?(\w+)\.py:\d+:\d+: error", done.stdout, re.MULTILINE))
    assert found == files.keys() - {"right"}, done.stdout + done.stderr
