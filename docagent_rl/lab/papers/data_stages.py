"""The stages before any model is trained: downloads, questions, store, indexes."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from docagent_rl.lab.papers import estimates
from docagent_rl.lab.papers.manifest import UNKNOWN, Download, QuestionFile, RetrieverIndex
from docagent_rl.lab.papers.setting import Setting
from docagent_rl.lab.stages.stage import ChainStage, Estimate

USES = ("train", "val", "test")


def data_stages(setting: Setting) -> Iterator[ChainStage]:
    """Yield the stages from downloads to questions and indexes."""
    questions = needed_questions(setting)
    for name in dict.fromkeys(each.download for each in questions.values()):
        yield from _downloads(setting, name, setting.manifest.downloads[name])
    for name, each in questions.items():
        yield _import(setting, name, each)
    for use in USES:
        if files := [_file(setting, n, each) for n, each in questions.items() if each.use == use]:
            yield _joined(setting, use, files)
    if setting.trains:
        yield _leakage(setting)
    for index in setting.indexes[:1] if setting.miniature else setting.indexes:
        yield _index(setting, index)


def needed_questions(setting: Setting) -> dict[str, QuestionFile]:
    """Return the files of questions that a setting needs, by name."""
    return {
        name: each
        for name, each in setting.manifest.questions.items()
        if (each.use == "test" or setting.trains) and each.only in (None, setting.beginning.value)
    }


def question_count(setting: Setting, use: str) -> int | None:
    """Return the largest possible number of questions for a use, or None if it is not known.

    Options such as `--limit` and `--min-pages` may reduce it.
    """
    total = 0
    for each in needed_questions(setting).values():
        if each.use != use:
            continue
        number = setting.manifest.downloads[each.download].questions.get(_split(each), UNKNOWN)
        if number == UNKNOWN:
            return None
        total += int(number)
    return total


def _split(each: QuestionFile) -> str:
    """Return the split of the released file from which questions are taken; `all` for all."""
    words = each.options.split()
    return words[words.index("--split") + 1] if "--split" in words else "all"


def _downloads(setting: Setting, name: str, source: Download) -> Iterator[ChainStage]:
    folder = setting.place("downloads", name)
    where = setting.word("downloads", name)
    if setting.miniature:
        made = f"python -m docagent_rl.lab.papers.miniature {source.benchmark} {where}"
        title = f"make a miniature of {source.benchmark}"
        yield ChainStage(f"download_{name}", title, made, outputs=(folder,))
        return
    if source.hub is not None:
        words = ["hf download", source.hub]
        # files by name are arguments, but not together with patterns
        patterns = any("*" in file for file in source.files)
        words += [f"--include {shlex.quote(f)}" if patterns else f for f in source.files]
        words += ["--repo-type dataset", f"--local-dir {where}"]
        if source.revision != UNKNOWN:
            words.append(f"--revision {source.revision}")
        title = f"download {source.hub}"
        if source.gated:
            title += " (gated: accept its licence on the hub, then `hf auth login`)"
        disk = None if source.gib == UNKNOWN else float(source.gib)
        takes = Estimate(0, disk, "size of the files" if disk else "size unknown")
        yield ChainStage(
            f"download_{name}", title, " ".join(words), outputs=(folder,), estimate=takes
        )
    if source.by_hand:
        yield ChainStage(
            f"fetch_{name}",
            f"get the rest of {source.benchmark}",
            None,
            outputs=(folder / source.expects,),
            by_hand=source.by_hand.format(folder=folder),
            estimate=Estimate(0, None),
        )
    if source.unpack:
        patterns = " ".join(f"{where}/{pattern}" for pattern in source.unpack)
        command = (
            f"for archive in {patterns}; do case $archive in "
            '*.zip) python -m zipfile -e "$archive" "${archive%.zip}";; '
            '*) tar -xf "$archive" -C "$(dirname "$archive")";; esac; done'
        )
        title = f"unpack {', '.join(source.unpack)}"
        yield ChainStage(f"unpack_{name}", title, command, estimate=Estimate(0, None))


def _file(setting: Setting, name: str, each: QuestionFile) -> Path:
    stem = f"{_target(setting, name, each)}-{each.part}" if each.part else name
    return setting.place("questions", f"{stem}.jsonl")


def _target(setting: Setting, name: str, each: QuestionFile) -> str:
    """Return the name of the import that writes questions.

    All parts of a download are written by the import of the first part.
    """
    if not each.part:
        return name
    parts = needed_questions(setting).items()
    return next(other for other, at in parts if at.part and at.download == each.download)


def _import(setting: Setting, name: str, each: QuestionFile) -> ChainStage:
    source = setting.manifest.downloads[each.download]
    target = _target(setting, name, each)
    options = each.options
    if setting.miniature:
        options = each.options if each.miniature is None else each.miniature
        options += " --any-count"
    words = [
        f"docagent-rl data import {source.benchmark} {setting.word('downloads', each.download)}",
        f"--store {setting.word('store')}",
        f"--out {setting.word('questions', f'{target}.jsonl')} --force",
        options.strip(),
    ]
    return ChainStage(
        f"import_{name}",
        f"import {source.benchmark} for {each.use}" + (f": {each.about}" if each.about else ""),
        " ".join(word for word in words if word),
        inputs=(setting.place("downloads", each.download),),
        outputs=(_file(setting, name, each), setting.place("store")),
        estimate=Estimate() if setting.miniature else estimates.storing(source.pages),
    )


def _joined(setting: Setting, use: str, files: list[Path]) -> ChainStage:
    together = setting.word("questions", f"{use}.jsonl")
    table = setting.place("data", f"{use}.parquet")
    names = " ".join(shlex.quote(str(file)) for file in files)
    command = (
        f"cat {names} > {together} && docagent-rl data convert {together} "
        f"--store {setting.word('store')} --out {shlex.quote(str(table))} --force"
    )
    outputs = (setting.place("questions", f"{use}.jsonl"), table)
    title = f"join the questions for {use} into one file"
    return ChainStage(f"questions_{use}", title, command, tuple(files), outputs)


def _leakage(setting: Setting) -> ChainStage:
    found = setting.place("leakage.txt")
    words = [setting.word("questions", f"{use}.jsonl") for use in ("train", "test")]
    command = (
        f"docagent-rl data leakage {' '.join(words)} --store {setting.word('store')} "
        f"> {shlex.quote(str(found))} || test $? -eq 2"
    )
    inputs = tuple(setting.place("questions", f"{use}.jsonl") for use in ("train", "test"))
    title = "list the documents and questions that training and test share"
    return ChainStage("leakage", title, command, inputs, (found,))


def _index(setting: Setting, index: RetrieverIndex) -> ChainStage:
    folder = "index" if setting.miniature else index.folder
    command = (
        f"docagent-rl index build --store {setting.word('store')} --out {setting.word(folder)}"
    )
    if index.model is not None and not setting.miniature:
        device = "cuda" if setting.machine.gpus else "cpu"
        command += f" --model {index.model} --device {device}"
    takes = Estimate() if setting.miniature else _indexing(setting, index)
    return ChainStage(
        folder,
        f"index the store with {index.model or 'BM25'}",
        command,
        inputs=(setting.place("store"),),
        outputs=(setting.place(folder),),
        estimate=takes,
    )


def _indexing(setting: Setting, index: RetrieverIndex) -> Estimate:
    names = {each.download for each in needed_questions(setting).values()}
    pages = [setting.manifest.downloads[name].pages for name in names]
    if UNKNOWN in pages:
        pages = [setting.manifest.pages]
    total = None if UNKNOWN in pages else sum(map(int, pages))
    return estimates.indexing(index, total, setting.machine)
