"""The seal of a folder: what it reports after kills, edits and moves."""

import hashlib
import json
import random
import threading

import pytest

from docagent_rl.base.seals import FileState, Record, Seal, read_seal, seal_difference


@pytest.fixture
def seal(tmp_path):
    return Seal(tmp_path / "run")


def written(seal, count=4):
    for number in range(count):
        seal.write(seal.root / "steps" / f"{number}.json", f"{number}\n" * (number + 1))
    return seal.path.read_bytes()


def differing(seal):
    known = read_seal(seal.root)
    return {
        name for name, record in known.records.items() if seal_difference(seal.root / name, record)
    }


def test_what_was_written_is_known_by_its_bytes(seal):
    text = "é\ud800 of two lines\n"
    seal.write(seal.root / "a.txt", text)
    seal.write(seal.root / "b" / "c.bin", iter([b"pieces ", b"", b"of it"]), about="of something")
    known = read_seal(seal.root)
    content = text.encode("utf-8", "replace")
    assert known.records == {
        "a.txt": Record(FileState.WHOLE, len(content), hashlib.sha256(content).hexdigest()),
        "b/c.bin": Record(
            FileState.WHOLE, 12, hashlib.sha256(b"pieces of it").hexdigest(), "of something"
        ),
    }
    assert (known.begun, known.broken, differing(seal)) == (set(), (), set())


def test_a_kill_at_any_byte_leaves_what_was_sealed_before(seal):
    data, names = written(seal), [f"steps/{number}.json" for number in range(4)]
    ends = [place + 1 for place, byte in enumerate(data) if byte == ord("\n")]
    for cut in range(len(data)):
        seal.path.write_bytes(data[:cut])
        known = read_seal(seal.root)
        lines = sum(
            end <= cut for end in ends
        )  # of each file, that it is being written and that it was
        assert list(known.records) == names[: lines // 2]
        assert known.begun == set(names[lines // 2 : (lines + 1) // 2])
        assert known.broken == ()
    seal.path.write_bytes(data[:-5])
    seal.write(seal.root / "more.json", "{}")
    known = read_seal(seal.root)
    assert known.begun == {names[-1]}
    assert [*names[:-1], "more.json"] == list(known.records)
    assert known.broken == ()


def test_a_line_that_was_edited_lost_doubled_or_moved_is_seen(seal):
    data = written(seal)
    lines, dice = data.splitlines(keepends=True), random.Random(3)
    for number in range(len(lines)):
        one, rest = lines[number], lines[number + 1 :]
        assert read_with(seal, [*lines[:number], one, one, *rest]).broken
        if rest:
            assert read_with(seal, lines[:number] + rest).broken == (number + 1,)
            assert read_with(seal, [*lines[:number], rest[0], one, *rest[1:]]).broken
        other = json.dumps({**json.loads(one), "path": "steps/9.json"}).encode() + b"\n"
        assert read_with(seal, [*lines[:number], other, *rest]).broken
    for _ in range(200):
        place = dice.randrange(len(data))
        flipped = bytearray(data)
        flipped[place] ^= 1 << dice.randrange(8)
        known = read_with(seal, [bytes(flipped)])
        assert known.broken or flipped[place] == ord("\n") or place == len(data) - 1


def read_with(seal, lines):
    seal.path.write_bytes(b"".join(lines))
    return read_seal(seal.root)


def test_files_that_grow_are_known_by_their_beginning(seal, tmp_path):
    file = seal.root / "lines.jsonl"
    file.parent.mkdir()
    file.write_bytes(b"one\ntwo\nthr")
    seal.grow(file, 8, hashlib.sha256(b"one\ntwo\n").hexdigest())
    assert differing(seal) == set()
    for content in (b"one\ntw", b"one\ntoo\nthree\n"):
        file.write_bytes(content)
        assert differing(seal) == {"lines.jsonl"}


def test_what_a_kill_left_is_adopted_and_said(seal):
    written(seal, 2)
    old, new, gone = (seal.root / "steps" / name for name in ("0.json", "new.json", "gone.json"))
    seal.begin([old, new, gone])
    new.write_text("written, and not sealed")
    seal.begin([seal.root / "steps" / "1.json"])
    (seal.root / "steps" / "1.json").write_text("replaced, and not sealed")
    assert seal.adopt() == ["steps/1.json", "steps/new.json"]
    known = read_seal(seal.root)
    assert known.begun == set()
    assert {name: record.state for name, record in known.records.items()} == {
        "steps/0.json": FileState.WHOLE,
        "steps/1.json": FileState.FOUND,
        "steps/new.json": FileState.FOUND,
    }
    assert differing(seal) == set()


def test_damage_moves_with_its_file_and_what_is_removed_is_forgotten(seal):
    written(seal, 3)
    steps = seal.root / "steps"
    (steps / "2.json").write_text("edited")
    seal.move({steps / f"{n}.json": seal.root / "superseded" / "1" / f"{n}.json" for n in (1, 2)})
    assert differing(seal) == {"superseded/1/2.json"}
    assert set(read_seal(seal.root).records) == {
        "steps/0.json",
        *(f"superseded/1/{n}.json" for n in (1, 2)),
    }
    with seal.writing(steps / "0.json"):
        (steps / "0.json").unlink()
    assert "steps/0.json" not in read_seal(seal.root).records


def test_compacting_leaves_what_is_known_and_any_evidence(seal):
    written(seal)
    seal.write(seal.root / "steps" / "1.json", "again")
    before = read_seal(seal.root)
    seal.compact()
    after = read_seal(seal.root)
    assert (after.records, after.broken) == (before.records, ())
    assert len(seal.path.read_text().splitlines()) == 4
    data = seal.path.read_bytes().replace(b"whole", b"found", 1)
    seal.path.write_bytes(data)
    seal.compact()
    assert seal.path.read_bytes() == data


def test_many_write_at_a_time(seal):
    def work(number):
        for step in range(8):
            Seal(seal.root).write(seal.root / f"{number}" / f"{step}.json", f"{number} {step}")
            if number == 0:
                seal.compact()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    known = read_seal(seal.root)
    assert len(known.records) == 48
    assert (known.broken, known.begun, differing(seal)) == ((), set(), set())
