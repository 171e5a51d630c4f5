from __future__ import annotations

import json

import pytest

from docagent_rl.base.errors import UserError
from tools.documents.manifest import MANIFEST, read_manifest


@pytest.mark.parametrize(
    ("field", "value"),
    [("doc_id", "../up"), ("package", "-o Dir::Bin::x"), ("version", "1; rm"), ("sha256", "12"), ("pages", 0),
     ("path", "/etc/x.pdf"), ("kind", "novel"), ("colour", "red"), ("scans", "nothing"), ("documents", 0)],
)  # fmt: skip
def test_a_wrong_entry_is_refused(tmp_path, field, value):
    data = json.loads(MANIFEST.read_text())
    if field == "documents":
        data["documents"].append(data["documents"][value])  # ids are unique
        field = data["documents"][value]["doc_id"]
    elif field == "scans":
        data["scans"] = [{"doc_id": "s", "of": value, "dpi": 150, "seed": 0}]  # of originals that there are
        field = "'s'.*'nothing'"
    else:
        data["documents"][0][field] = value
    (tmp_path / "documents.json").write_text(json.dumps(data))
    with pytest.raises(UserError, match=rf"documents\.json(.|\n)*{field}"):
        read_manifest(tmp_path / "documents.json")
