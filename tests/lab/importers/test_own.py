"""Importers of users, named by `package.module:CLASS`."""

from types import MappingProxyType

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.lab.importers import Benchmark, get_importer
from docagent_rl.lab.importers.holdings import ImportSettings
from docagent_rl.lab.importers.importer import Importer
from docagent_rl.lab.importers.own import own_importer
from docagent_rl.lab.importers.running import run_import
from docagent_rl.samples.sample import Split

HERE = __name__


class Own(Importer):
    name, dataset, files, split = "own", "own", ("*.jsonl",), Split.TEST
    document, gold = "doc", "answer"


class NoFiles(Own):
    files = ()


class RowsOfItsOwn(Importer):
    name, gold, document = "rows", "answer", "doc"

    def rows(self, source):
        yield from ()


class Bare(Importer):
    pass


class TextForTuple(Own):
    files = "*.jsonl"
    kept = "a"


class TextForSplit(Own):
    split = "test"


class WrongKinds(Own):
    first_page = "0"
    corpus = "yes"
    released = MappingProxyType({"own": 6})


class Outside(Own):
    name = "../own"


class WithArguments(Own):
    def __init__(self, folder):
        self.folder = folder


class Raising(Own):
    def complete(self, draft):
        draft.cites = [(draft.doc_id, draft.row.values["missing"])]


class RaisingAtFiles(Own):
    def documents(self, source, drafts):
        raise RuntimeError("no network here")


class NoImporter:
    pass


INSTANCE = Own()


def test_a_class_is_made():
    assert type(get_importer(f"{HERE}:Own")) is Own
    assert type(own_importer(f"{HERE}:RowsOfItsOwn")) is RowsOfItsOwn


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("nowhere.at_all:Own", r"importer 'nowhere\.at_all:Own' cannot be imported: .*PYTHONPATH"),
        (f"{HERE}:Missing", "cannot be imported: .*Missing"),
        (f"{HERE}:", "cannot be imported"),
        (f"{HERE}:INSTANCE", r"is a Own, expected a subclass of .*importer\.Importer"),
        (f"{HERE}:HERE", r"is a str, expected a subclass"),
        (f"{HERE}:NoImporter", r"is not a subclass of .*importer\.Importer"),
        (
            f"{HERE}:Bare",
            "'name' has to be a text; .*'gold' has to be a text; .*'document' has .*'dataset' has",
        ),
        (f"{HERE}:NoFiles", "'files' has no pattern"),
        (f"{HERE}:TextForTuple", "'files' has to be a tuple of texts; .*'kept' has to be a tuple"),
        (f"{HERE}:TextForSplit", r"'split' has to be a Split .*Split\.TEST"),
        (
            f"{HERE}:WrongKinds",
            "'first_page' has to be a whole .*'corpus' has to be True.*'released' has to be",
        ),
        (f"{HERE}:Outside", r"'name' is '\.\./own', which is not valid as a file name"),
        (f"{HERE}:WithArguments", "cannot be created without arguments: TypeError.*folder"),
        (
            "unknown",
            "no benchmark 'unknown'; available: mmlongbench_doc, .* or an importer of your own",
        ),
    ],
)
def test_what_is_no_importer_is_named(path, named):
    with pytest.raises(UserError, match=named):
        get_importer(path)


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        (
            Raising,
            r"importer .*:Raising, a\.jsonl:0: KeyError: 'missing' \(.*test_own\.py, line \d+\)",
        ),
        (RaisingAtFiles, r"importer .*:RaisingAtFiles, documents: RuntimeError: no network here"),
    ],
)
def test_a_fault_of_an_importer_is_named_with_its_line(files, kind, named):
    files.jsonl("a.jsonl", [{"doc": "d", "question": "What?", "answer": "41"}])
    with pytest.raises(UserError, match=named):
        run_import(kind(), files.root, ImportSettings())


def test_faults_of_the_package_keep_their_traceback(files, monkeypatch):
    """Such faults are not errors of the user."""
    importer = get_importer(Benchmark.MMLONGBENCH_DOC)

    def broken(self, source, drafts):
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(type(importer), "documents", broken)
    files.json("samples.json", [])
    with pytest.raises(RuntimeError, match="a fault of ours"):
        run_import(importer, files.root, ImportSettings())


@pytest.mark.parametrize("benchmark", Benchmark)
def test_shipped_importers_are_what_users_may_write(benchmark):
    kind = type(get_importer(benchmark))
    assert type(own_importer(f"{kind.__module__}:{kind.__qualname__}")) is kind
