import pytest

from tools.mutants.changes import mutants


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("a < b", ["module: a < b -> a <= b"]),
        ("x: int | None = a | b", ["module: a | b -> a & b"]),
        ("def f():\n    return g(k=x)", ["f: return g(k=x) -> return None", "f: g(k=x) -> g()"]),
        ("def f():\n    raise E(f'{n + 1}')", ["f: raise E(f'{n + 1}') -> pass"]),
        ("if not done:\n    stop()", ["module: not done -> done", "module: stop() -> pass"]),
        (
            "y = 1.5 if t else -2",
            [
                "module: 1.5 if t else -2 -> 1.5 if not t else -2",
                "module: 1.5 -> 3.0",
                "module: -2 -> 2",
                "module: 2 -> 3",
            ],
        ),
        ("'A text.'\nname = 'other'", []),
        ("last = next(reversed(rows))", ["module: reversed(rows) -> rows"]),
        ("if TYPE_CHECKING:\n    from a import b", []),
    ],
)
def test_each_change_is_made_alone_and_named(source, names):
    made = mutants(source)
    assert {mutant.name for mutant in made} == set(names)
    assert len({mutant.source for mutant in made}) == len(made)


def test_changes_of_one_name_are_told_apart():
    names = [mutant.name for mutant in mutants("a + b\na + b")]
    assert names == ["module: a + b -> a - b", "module: a + b -> a - b #2"]
