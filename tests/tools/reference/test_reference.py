"""The pages of reference have everything, and are those of the code."""

from pathlib import Path

from pydantic import Field

from docagent_rl.base.section import Section
from docagent_rl.commands.lazy import COMMANDS
from docagent_rl.config import DocAgentConfig
from tools.public_names import FILE
from tools.reference.__main__ import ROOT, made
from tools.reference.markdown import cell, paragraphs
from tools.reference.sections import field_texts, section_schemas


class Plant(Section):
    """A plant."""

    height: int = Field(3, ge=1)
    """Height in
    metres.
    """
    name: str = ""


def test_the_files_are_those_that_are_made():
    for name, text in made().items():
        # else: python -m tools.reference
        assert (ROOT / name).read_text(encoding="utf-8") == text, name


def test_every_command_key_and_name_has_its_place():
    pages = {Path(name).stem: text for name, text in made().items()}
    assert all(f"## docagent-rl {name}\n" in pages["commands"] for name in COMMANDS)
    assert all(f"\n| `{name}` |" in pages["configuration"] for name in DocAgentConfig.model_fields)
    promised = {line.partition("(")[0] for line in FILE.read_text(encoding="utf-8").splitlines()}
    names = {name.removeprefix("docagent_rl.").split(".")[-1] for name in promised}
    named = {line[4:] for line in pages["api"].splitlines() if line.startswith("### ")}
    assert named
    assert named <= names


def test_the_text_below_a_field_is_its_description():
    assert field_texts(Plant) == {"height": "Height in metres."}
    (schema,), definitions = section_schemas([Plant])
    height = definitions[schema["$ref"].rpartition("/")[2]]["properties"]["height"]
    assert (height["description"], height["minimum"]) == ("Height in metres.", 1)


def test_texts_of_the_code_become_markdown():
    assert cell("a <b>\n| `c<d|e`") == "a \\<b> \\| `c<d\\|e`"
    text = "Return it.\n\nArgs:\n    one: the first,\n        and more.\n    two: the next.\n\nEnd."
    assert paragraphs(text).splitlines() == [
        *("Return it.", "", "*Args:*", ""),
        *("- `one`: the first, and more.", "- `two`: the next.", "", "End."),
    ]
