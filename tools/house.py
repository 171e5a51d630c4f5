"""Check sizes, imports and words of the package against `tools/house.toml`.

python -m tools.house [--table]
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated

import grimp
import typer
from rich.console import Console

from tools.reading import beside, read

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "docagent_rl"
SETTINGS = Path(__file__).with_suffix(".toml")
_SKIPPED = ("patches", "recipes", "node_modules")
"""Folders that are skipped: links to folders elsewhere in the repository, and npm's packages."""

app = typer.Typer(add_completion=False)


@app.command()
def main(
    table: Annotated[bool, typer.Option("--table", help="Print the current sizes.")] = False,
) -> None:
    """Check the rules of the package's style and size; status 1 if one is broken.

    Reported are circular imports, packages and functions beyond their budgets, names that several
    modules define, names with words outside the glossary, and docstrings that are clauses.
    """
    settings = tomllib.loads(SETTINGS.read_text(encoding="utf-8"))
    sizes = package_statements(ROOT)
    edges = imports()
    reached = {name: reached_modules(edges, name) for name in settings["modules"]}
    modules = {name: len(names) for name, names in reached.items()}
    reached_statements = {
        name: sum(map(module_statements, names)) for name, names in reached.items()
    }
    if table:
        for name, statements in sorted(sizes.items(), key=lambda each: -each[1]):
            typer.echo(f"{statements:7,} {name}")
        typer.echo(f"{sum(sizes.values()):7,} statements in all")
        for name in reached:
            typer.echo(
                f"{modules[name]:7,} modules with {reached_statements[name]:,} statements reached "
                f"from {name}"
            )
        Console(width=120).print(beside(read(python_files(ROOT)), settings["others"]))
        return
    problems = [
        *circles(imports(types=True)),
        *outgrown("statements", settings["statements"], sizes),
        *outgrown("modules", settings["modules"], modules),
        *long_functions(settings["functions"]["lines"], python_files(ROOT)),
        *shared_names(python_files(ROOT)),
        *foreign_words(settings["words"], python_files(ROOT)),
        *clauses(
            settings["docstrings"]["beginnings"], [*python_files(ROOT), *tools_and_studies(ROOT)]
        ),
    ]
    for problem in problems:
        typer.echo(problem, err=True)
    if problems:
        raise typer.Exit(1)


def python_files(root: Path) -> Iterator[Path]:
    """Yield the package's own Python files."""
    for file in sorted((root / PACKAGE).rglob("*.py")):
        if not any(part in _SKIPPED for part in file.relative_to(root).parts):
            yield file


def tools_and_studies(root: Path) -> list[Path]:
    """Return the Python files of tools and examples, which have no budget."""
    return sorted(
        file for folder in ("tools", "examples") for file in (root / folder).rglob("*.py")
    )


def package_of(file: Path, root: Path) -> str:
    """Return the package to which a budget applies: the first level, or in the lab the second."""
    parts = file.relative_to(root / PACKAGE).parts[:-1]
    return ".".join(parts[: 2 if parts[:1] == ("lab",) else 1]) or "."


def package_statements(root: Path) -> Counter[str]:
    """Count the statements of each package."""
    sizes: Counter[str] = Counter()
    for file in python_files(root):
        sizes[package_of(file, root)] += statements_of(file)
    return sizes


def statements_of(file: Path) -> int:
    """Return the number of statements in a file, which does not depend on line breaks."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return sum(isinstance(node, ast.stmt) for node in ast.walk(tree))


def imports(*, types: bool = False, package: str = PACKAGE) -> dict[str, set[str]]:
    """Return the modules of this project that each module imports, also inside functions.

    Parent packages are included unless they are empty. Imports for type checkers are included if
    `types` is set.
    """
    graph = grimp.build_graph(package, exclude_type_checking_imports=not types, cache_dir=None)
    named = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}

    def around(name: str) -> set[str]:
        parts = name.split(".")
        return {package for k in range(1, len(parts)) if named[package := ".".join(parts[:k])]}

    return {
        name: found | set().union(*map(around, found)) - around(name) - {name}
        for name, found in named.items()
    }


def circles(edges: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Yield a sentence about a circle of modules that import one another, if there is one.

    `main` counts imports for type checkers too, since a reader has to understand all modules
    of a circle at once.
    """
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        ring = " imports ".join(reversed(error.args[1]))
        yield f"{ring}: move what both sides need, or pass it in"


def reached_modules(edges: Mapping[str, set[str]], name: str) -> set[str]:
    """Return the modules of a package, and those that they import."""
    whole = f"{PACKAGE}.{name}"
    reached: set[str] = set()
    new = {each for each in edges if each == whole or each.startswith(f"{whole}.")}
    while new:
        reached |= new
        new = set().union(*(edges[each] for each in new)) - reached
    return reached


def module_statements(name: str) -> int:
    """Count the statements of a module."""
    path = ROOT.joinpath(*name.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return statements_of(file)


def outgrown(what: str, budgets: Mapping[str, int], found: Mapping[str, int]) -> Iterator[str]:
    """Yield a sentence for each size above its budget, and for each without one."""
    for name, size in sorted(found.items()):
        if name not in budgets:
            yield f"{name} has no budget for {what}: add it to {SETTINGS.name} ({size})"
        elif size > budgets[name]:
            most = f"{budgets[name]} in {SETTINGS.name}"
            yield (
                f"{name} has {size} {what}, but at most {most} are allowed: remove some, or raise "
                "the number with a reason"
            )


def long_functions(most: int, files: Iterable[Path]) -> Iterator[str]:
    """Yield a sentence for each function whose body, without docstring, exceeds `most` lines."""
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            body = node.body[1:] if ast.get_docstring(node) else node.body
            lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
            if lines > most:
                place = f"{file.relative_to(ROOT)}:{node.lineno}"
                yield f"{place}: {node.name} has {lines} lines, more than {most}: split it"


def shared_names(files: Iterable[Path]) -> Iterator[str]:
    """Yield a sentence for each public class or function name that several modules define."""
    places: dict[str, list[str]] = defaultdict(list)
    for file in files:
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            if named and not node.name.startswith("_"):
                places[node.name].append(f"{file.relative_to(ROOT)}:{node.lineno}")
    for name, found in places.items():
        # overloads and variants of a function are in the same file
        if len({place.partition(":")[0] for place in found}) > 1:
            yield f"{', '.join(found)}: each defines {name}: rename all but one"


def clauses(beginnings: Iterable[str], files: Iterable[Path]) -> Iterator[str]:
    """Yield a sentence for each docstring that begins with one of these words.

    Such a docstring is a clause, not a sentence or a noun.
    """
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                words = (ast.get_docstring(node) or "").split(maxsplit=1)
                if words and words[0].rstrip(",.:;") in beginnings:
                    place = f"{file.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"
                    yield f"{place}: begin with a verb or a noun, not with {words[0]!r}"


def foreign_words(words: Mapping[str, str], files: Iterable[Path]) -> Iterator[str]:
    """Yield a sentence for each definition whose name uses a word other than the glossary's.

    Args:
        words: the words to use instead, by word.
        files: the files to check.
    """
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                for word in re.findall(r"[A-Z]?[a-z]+", node.name):
                    if instead := words.get(word.lower()):
                        place = f"{file.relative_to(ROOT)}:{node.lineno}"
                        yield f"{place}: {node.name}: say {instead}, not {word}"


if __name__ == "__main__":
    app()
