"""Damage to the bytes of any file."""

from __future__ import annotations

from enum import StrEnum
from random import Random


class Damage(StrEnum):
    """What is done to the bytes."""

    NONE = "none"
    FLIP = "flip"
    ZERO = "zero"
    CUT = "cut off"
    DELETE = "delete"
    REPEAT = "repeat"
    INSERT = "insert"
    NOISE = "noise"
    APPEND = "append"
    EMPTY = "empty"


def damage(data: bytes, kind: Damage, random: Random) -> bytes:
    """`data` with one damage."""
    start = random.randrange(len(data))
    end = min(len(data), start + random.choice((1, 2, 4, 16, 100)))
    junk = random.randbytes(random.choice((1, 4, 64)))
    match kind:
        case Damage.NONE:
            return data
        case Damage.FLIP:
            return _flipped(data, random)
        case Damage.ZERO:
            return data[:start] + bytes(end - start) + data[end:]
        case Damage.CUT:
            return data[:start]
        case Damage.DELETE:
            return data[:start] + data[end:]
        case Damage.REPEAT:
            return data[:end] + data[start:]
        case Damage.INSERT:
            return data[:start] + junk + data[start:]
        case Damage.NOISE:
            return data[:start] + random.randbytes(end - start) + data[end:]
        case Damage.APPEND:
            return data + junk
        case Damage.EMPTY:
            return b""


def pick(random: Random) -> Damage:
    """A kind of damage; the plain ones are the most frequent."""
    weights = {Damage.NONE: 1, Damage.EMPTY: 1, Damage.FLIP: 8, Damage.CUT: 4}
    kinds = list(Damage)
    return random.choices(kinds, [weights.get(kind, 2) for kind in kinds])[0]


def _flipped(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    # the first bytes hold what decides how the others are read
    reach = min(len(data), 256) if random.random() < 0.5 else len(data)
    for _ in range(random.choice((1, 1, 2, 8))):
        changed[random.randrange(reach)] ^= 1 << random.randrange(8)
    return bytes(changed)
