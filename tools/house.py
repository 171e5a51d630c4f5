"""`python -m tools.house [--table]`: holds sizes, imports and words of the package to
`tools/house.toml`.
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
"""Links, which are read where they lie, and what npm installs."""

app = typer.Typer(add_completion=False)


@app.command()
def main(
    table: Annotated[bool, typer.Option("--table", help="Print the sizes as they are.")] = False,
) -> None:
    """Name circles, packages beyond budgets, names with foreign words, and docstrings that are
    clauses.
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
    """List the Python files of tools and examples, whose sizes no budget holds."""
    return sorted(
        file for folder in ("tools", "examples") for file in (root / folder).rglob("*.py")
    )


def package_of(file: Path, root: Path) -> str:
    """Return the package that a budget is about: the first level, and in the lab the second."""
    parts = file.relative_to(root / PACKAGE).parts[:-1]
    return ".".join(parts[: 2 if parts[:1] == ("lab",) else 1]) or "."


def package_statements(root: Path) -> Counter[str]:
    """Count the statements of each package."""
    sizes: Counter[str] = Counter()
    for file in python_files(root):
        sizes[package_of(file, root)] += statements_of(file)
    return sizes


def statements_of(file: Path) -> int:
    """Count the statements of a file, which joining or breaking lines does not change."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return sum(isinstance(node, ast.stmt) for node in ast.walk(tree))


def imports(*, types: bool = False, package: str = PACKAGE) -> dict[str, set[str]]:
    """Return the modules of ours that come with each module, those that its functions import
    included.

    Other packages around them come too, but for empty ones. What a module imports for type
    checkers only comes with it where `types` is set.
    """
    graph = grimp.build_graph(package, exclude_type_checking_imports=not types)
    named = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}

    def around(name: str) -> set[str]:
        parts = name.split(".")
        return {package for k in range(1, len(parts)) if named[package := ".".join(parts[:k])]}

    return {
        name: found | set().union(*map(around, found)) - around(name) - {name}
        for name, found in named.items()
    }


def circles(edges: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Yield a sentence for a circle of modules that import one another, if there is any.

    In `main` an import for type checkers closes a circle like any other: a reader has to
    understand all of its modules at once.
    """
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        ring = " imports ".join(reversed(error.args[1]))
        yield f"{ring}: move what both sides need, or pass it in"


def reached_modules(edges: Mapping[str, set[str]], name: str) -> set[str]:
    """Return the modules of a package and those that come with them."""
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
            yield f"{name} has no budget of {what}: add it to {SETTINGS.name} ({size})"
        elif size > budgets[name]:
            most = f"{budgets[name]} in {SETTINGS.name}"
            yield (
                f"{name} has {size} {what}, and {most}: take something away, or raise the "
                "number "
                "there"
            )


def long_functions(most: int, files: Iterable[Path]) -> Iterator[str]:
    """Yield a sentence for each function with a body of more than `most` lines, docstring apart."""
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            body = node.body[1:] if ast.get_docstring(node) else node.body
            lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
            if lines > most:
                place = f"{file.relative_to(ROOT)}:{node.lineno}"
                yield f"{place}: {node.name} has {lines} lines, and {most} are the most: divide it"


def shared_names(files: Iterable[Path]) -> Iterator[str]:
    """Yield a sentence for each public class or function whose name several modules define."""
    places: dict[str, list[str]] = defaultdict(list)
    for file in files:
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            if named and not node.name.startswith("_"):
                places[node.name].append(f"{file.relative_to(ROOT)}:{node.lineno}")
    for name, found in places.items():
        # overloads and versions of one function stand in one file
        if len({place.partition(":")[0] for place in found}) > 1:
            yield f"{', '.join(found)}: each defines {name}: give all but one a name of their own"


def clauses(beginnings: Iterable[str], files: Iterable[Path]) -> Iterator[str]:
    """Yield a sentence for each docstring that begins with one of these words, and so is a
    clause.
    """
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                words = (ast.get_docstring(node) or "").split(maxsplit=1)
                if words and words[0].rstrip(",.:;") in beginnings:
                    place = f"{file.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"
                    yield f"{place}: begin with a verb or a noun, not with {words[0]!r}"


def foreign_words(words: Mapping[str, str], files: Iterable[Path]) -> Iterator[str]:
    """Yield a sentence for each name of a definition that uses another word than the glossary's.

    Args:
        words: what to say instead, by word.
        files: to look through.
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
