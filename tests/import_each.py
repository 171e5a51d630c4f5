"""Import modules, each in a fork in which nothing of verl or of this package is loaded yet."""

import contextlib
import importlib
import json
import os
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor

OURS = ("docagent_rl", "hydra_plugins", "verl")


def in_fork(play) -> str:
    """Return what `play` returns in a child process, or the text of what it raises."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        with os.fdopen(write, "w") as out:
            try:
                out.write(play())
            except BaseException:  # a fork must end here, with whatever it met told
                out.write("failed\n" + traceback.format_exc())
            out.flush()
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as result:
        text = result.read()
    os.waitpid(child, 0)
    return text


def loaded_by(module: str) -> list[str]:
    """Return the modules outside the package that an import loads, found out in a fork."""

    def report() -> str:
        importlib.import_module(module)
        return "\n".join(name for name in sys.modules if name.partition(".")[0] not in OURS)

    return in_fork(report).splitlines()


def imported(names: str) -> str:
    """Import modules in order; return nothing, or what went wrong."""

    def play() -> str:
        for name in names.split("+"):
            importlib.import_module(name)
        return ""

    return in_fork(play)


def main() -> None:
    """Import the module whose imports of others are shared, then the modules of each fork, joined
    by `+`.
    """
    heavy, *modules = sys.argv[1:]
    for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
        del sys.modules[name]  # a warm interpreter's
    for name in loaded_by(heavy):
        with contextlib.suppress(Exception):  # some can be imported from within their package only
            importlib.import_module(name)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        failures = dict(zip(modules, pool.map(imported, modules), strict=True))
    assert not any(name.partition(".")[0] in OURS for name in sys.modules), (
        "the forks did not start bare"
    )
    print(json.dumps({name: text for name, text in failures.items() if text}))


if __name__ == "__main__":
    main()
