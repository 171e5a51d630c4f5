"""Sizes are compared with budgets, and names with words."""

from tools.house import (
    circles,
    clauses,
    foreign_words,
    imports,
    long_functions,
    outgrown,
    package_statements,
    reached_modules,
    shared_names,
)


def test_a_package_that_outgrew_its_budget_and_one_without_are_named():
    problems = list(outgrown("statements", {"a": 3, "b": 3}, {"a": 3, "b": 4, "lab.c": 1}))
    assert [problem.split()[0] for problem in problems] == ["b", "lab.c"]


def test_statements_are_counted_by_package_and_links_left_out(tmp_path):
    for name, text in {
        "a/x.py": "1\n\n\nx = 2; y = (\n    3\n)\n",
        "a/b/y.py": "1\n",
        "lab/c/z.py": "1\n",
        "patches/p.py": "1\n",
    }.items():
        file = tmp_path / "docagent_rl" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert package_statements(tmp_path) == {"a": 4, "lab.c": 1}


def test_a_system_reaches_its_own_modules_and_those_below():
    edges = imports()
    base, system = (reached_modules(edges, name) for name in ("base", "systems.vrag_rl"))
    assert 5 < len(base) < len(system)


def test_a_circle_is_named_module_by_module():
    edges = {"a": {"b"}, "b": {"c"}, "c": {"d", "b"}, "d": set()}
    assert next(circles(edges)).partition(":")[0] in (
        "b imports c imports b",
        "c imports b imports c",
    )
    assert not list(circles({"a": {"b"}, "b": set()}))


def test_a_circle_that_only_type_checkers_close_is_named(monkeypatch, tmp_path):
    typed = "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from rooms import a\n"
    for name, text in {"__init__": "", "a": "from rooms import b\n", "b": typed}.items():
        file = tmp_path / "rooms" / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not list(circles(imports(package="rooms")))
    (found,) = circles(imports(types=True, package="rooms"))
    assert "rooms.a imports rooms.b" in found


def test_names_that_use_other_words_are_found(monkeypatch, tmp_path):
    monkeypatch.setattr("tools.house.ROOT", tmp_path)
    (tmp_path / "a.py").write_text(
        "class PageShelf:\n    def told(self): ...\n\n\ndef shelve(): ...\n"
    )
    words = {"shelf": "cache", "told": "reported"}
    found = list(foreign_words(words, [tmp_path / "a.py"]))
    assert [each.split(":")[:2] for each in found] == [["a.py", "1"], ["a.py", "2"]]


def test_docstrings_that_are_clauses_are_found(monkeypatch, tmp_path):
    monkeypatch.setattr("tools.house.ROOT", tmp_path)
    text = (
        '"""A module."""\n\n\nclass A:\n    """What it is."""\n\n    def b(self):\n        '
        '"""Whatever."""\n'
    )
    (tmp_path / "a.py").write_text(text)
    assert [each.split(":")[:2] for each in clauses(["What"], [tmp_path / "a.py"])] == [
        ["a.py", "4"]
    ]


def test_a_long_body_is_named_and_a_long_signature_or_docstring_is_not(monkeypatch, tmp_path):
    monkeypatch.setattr("tools.house.ROOT", tmp_path)
    text = (
        'def a(\n    x,\n):\n    """One.\n\n    Two.\n    """\n    return x\n\n\n'
        "class B:\n    async def c(self):\n        y = 1\n        return y\n\n    def d(self): "
        "...\n"
    )
    (tmp_path / "a.py").write_text(text)
    found = list(long_functions(1, [tmp_path / "a.py"]))
    assert [each.split(":")[:2] for each in found] == [["a.py", "12"]]
    assert not list(long_functions(2, [tmp_path / "a.py"]))


def test_a_public_name_of_two_modules_is_found(monkeypatch, tmp_path):
    monkeypatch.setattr("tools.house.ROOT", tmp_path)
    (tmp_path / "a.py").write_text("class Page: ...\n\n\ndef _of(): ...\n\n\ndef read(): ...\n")
    (tmp_path / "b.py").write_text("def _of(): ...\n\n\nclass Page:\n    def read(self): ...\n")
    found = list(shared_names([tmp_path / "a.py", tmp_path / "b.py"]))
    assert [each.partition(": ")[0] for each in found] == ["a.py:1, b.py:4"]
