"""PDFs of one page, object by object."""

from __future__ import annotations

from pathlib import Path


def write_pdf_objects(path: Path, content: str, resources: str, *objects: str, size: str = "200 100") -> Path:
    """A PDF of one page; `objects` are numbered from 5."""
    bodies = [
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 {size}]/Contents 4 0 R/Resources<<{resources}>>>>",
        f"<</Length {len(content)}>>stream\n{content}\nendstream",
        *objects,
    ]
    data, offsets = b"%PDF-1.7\n", []
    for number, body in enumerate(bodies, start=1):
        offsets.append(len(data))
        data += f"{number} 0 obj\n{body}\nendobj\n".encode("latin-1")
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    end = f"xref\n0 {len(bodies) + 1}\n0000000000 65535 f \n{table}"
    end += f"trailer\n<</Root 1 0 R/Size {len(bodies) + 1}>>\nstartxref\n{len(data)}\n%%EOF\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data + end.encode("ascii"))
    return path
