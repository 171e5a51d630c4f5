"""A library's code for other GPUs is overwritten, and nothing else is."""

import struct

from tools.prune_gpu_code import CONTAINER, CUBIN, ENTRY, MAGIC, SECTION, codes, prune

PTX = 1
TEXT = b"host code of the library"


def container(*entries: tuple[int, int, bytes]) -> bytes:
    """Return a container of (kind, architecture, code)."""
    body = b"".join(
        ENTRY.pack(kind, 0x101, 64, len(code), 0, 0, 0, architecture).ljust(64, b"\1") + code
        for kind, architecture, code in entries
    )
    return CONTAINER.pack(MAGIC, 1, 16, len(body)) + body


def library(code: bytes) -> bytes:
    """Return a 64-bit ELF file with a section of host code and one of GPU code."""
    names = b"\0.text\0" + SECTION + b"\0.shstrtab\0"
    parts = {1: TEXT, 7: code, 7 + len(SECTION) + 1: names}
    offset, body, heads = 64, b"", [bytes(64)]
    for name, part in parts.items():
        heads.append(
            struct.pack("<IIQQQQ", name, 1, 0, 0, offset + len(body), len(part)).ljust(64, b"\0")
        )
        body += part
    table = offset + len(body)
    head = b"\x7fELF\x02".ljust(0x28, b"\0") + struct.pack("<Q", table)
    head = head.ljust(0x3A, b"\0") + struct.pack("<HHH", 64, len(heads), len(heads) - 1)
    return head.ljust(64, b"\0") + body + b"".join(heads)


def test_machine_code_of_one_architecture_stays(tmp_path):
    path = tmp_path / "library.so"
    first = container((CUBIN, 80, b"a" * 24), (CUBIN, 90, b"b" * 40), (PTX, 90, b"c" * 16))
    # padding between containers, and one that has code of other GPUs alone
    whole = library(first + bytes(8) + container((CUBIN, 120, b"d" * 8)))
    path.write_bytes(whole)
    assert [(c.kind, c.architecture, c.size) for c in codes(whole)] == [
        (CUBIN, 80, 24),
        (CUBIN, 90, 40),
        (PTX, 90, 16),
        (CUBIN, 120, 8),
    ]
    assert prune(path, 90) == (40, 48)
    wanted = whole
    for letter, size in ((b"a", 24), (b"c", 16), (b"d", 8)):
        wanted = wanted.replace(letter * size, bytes(size))
    assert path.read_bytes() == wanted
    assert prune(path, 90) == (40, 48)
