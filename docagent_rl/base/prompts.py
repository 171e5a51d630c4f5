"""Prompt files: YAML with one jinja2 template per part.

```yaml
system: |
  You answer questions about documents ...
user: |
  Question: {{ question }}
```

The filter `delimited` puts untrusted text between two marker lines that the text cannot contain:
`{{ answer | delimited }}`.
"""

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import jinja2.meta
import jinja2.sandbox

from docagent_rl.base.errors import UserError
from docagent_rl.base.section import read_yaml
from docagent_rl.base.untrusted import delimited

_PACKAGE = Path(__file__).parents[1]
# Templates come from the user, the values filled into them do not: in the sandbox a value can only
# be text.
_JINJA = jinja2.sandbox.ImmutableSandboxedEnvironment(
    undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
)
_JINJA.filters["delimited"] = delimited


@dataclass(frozen=True, slots=True)
class PromptSpec:
    """The required and optional parts of a prompt file, and the variables its templates may use."""

    required: frozenset[str]
    optional: frozenset[str] = frozenset()
    variables: frozenset[str] = frozenset()
    shown: frozenset[str] = frozenset()
    """Variables that at least one part has to show, such as the question."""


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """The compiled parts of a prompt file."""

    source: str
    """Path of the file, for error messages."""
    digest: str
    """SHA-256 of the file, which changes with its wording."""
    parts: Mapping[str, jinja2.Template]
    used: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The variables that each part shows."""

    def __contains__(self, part: str) -> bool:
        return part in self.parts

    def render(self, part: str, **variables: Any) -> str:
        """Render a part and strip surrounding whitespace.

        Raises:
            UserError: a variable is missing, or the template raises an error.
        """
        try:
            return self.parts[part].render(variables).strip()
        except (jinja2.TemplateError, TypeError, ValueError, ArithmeticError) as error:
            raise UserError(f"prompt file {self.source}, part {part!r}: {error}") from error


@functools.lru_cache(maxsize=64)
def load_prompt(name_or_path: str, spec: PromptSpec) -> PromptTemplate:
    """Load a prompt of this package, e.g. `vrag_rl_paper`, or a `.yaml` file; results are cached.

    Raises:
        UserError: there is no such prompt; it is not YAML; a part is missing, unknown or not text;
            a template has a syntax error or uses an unknown variable. The message names file and
            part.
    """
    path = prompt_file(name_or_path)
    data = read_yaml(path, "user: |", f"prompt file {path}")
    for part, template in data.items():
        # YAML reads a bare yes, no or 5 as a boolean or a number
        if not isinstance(template, str):
            raise UserError(
                f"prompt file {path}: part {part!r} is not text but {template!r}; write `{part}: |`"
            )
    if missing := sorted(spec.required - set(data)):
        raise UserError(f"prompt file {path}: the part {missing[0]!r} is missing")
    if unknown := sorted(set(map(str, data)) - spec.required - spec.optional):
        known = sorted(spec.required | spec.optional)
        raise UserError(f"prompt file {path}: unknown part {unknown[0]!r}; known parts: {known}")
    found = {
        part: _compile(template, spec, f"{path}, part {part!r}") for part, template in data.items()
    }
    used = {part: variables for part, (_, variables) in found.items()}
    for name in sorted(spec.shown - frozenset().union(*used.values())):
        raise UserError(
            f"prompt file {path}: no part shows the variable `{{{{ {name} }}}}` to the policy; "
            "add it, spelled exactly like this"
        )
    parts = {part: template for part, (template, _) in found.items()}
    return PromptTemplate(str(path), hashlib.sha256(path.read_bytes()).hexdigest(), parts, used)


def prompt_file(name_or_path: str) -> Path:
    """Return the path of a prompt given by name or path."""
    if name_or_path.endswith((".yaml", ".yml")):
        return Path(name_or_path)
    if name_or_path not in _files():
        raise UserError(
            f"there is no prompt {name_or_path!r}: give the path of a .yaml file, or one of "
            f"these names: {', '.join(prompt_names())}"
        )
    return _files()[name_or_path]


def prompt_names() -> list[str]:
    """Return the names of this package's prompts."""
    return sorted(_files())


@functools.cache
def _files() -> Mapping[str, Path]:
    """Map names to prompt files, each in the folder `prompts` of the package that uses it."""
    return {path.stem: path for path in _PACKAGE.glob("**/prompts/*.yaml")}


def _compile(template: str, spec: PromptSpec, where: str) -> tuple[jinja2.Template, frozenset[str]]:
    try:
        used = jinja2.meta.find_undeclared_variables(_JINJA.parse(template))
        compiled = _JINJA.from_string(template)
    except jinja2.TemplateSyntaxError as error:
        raise UserError(f"prompt file {where}, line {error.lineno}: {error.message}") from error
    if unknown := sorted(used - spec.variables):
        known = sorted(spec.variables)
        raise UserError(
            f"prompt file {where}: unknown variable {unknown[0]!r}; known variables: {known}"
        )
    return compiled, frozenset(used)
