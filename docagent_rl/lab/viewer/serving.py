"""Serves the page from this process, on the loopback device unless told otherwise."""

from __future__ import annotations

import secrets
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path

from docagent_rl import __version__
from docagent_rl.base.errors import UserError
from docagent_rl.lab.viewer.api import Api
from docagent_rl.lab.viewer.folder import ViewedRun
from docagent_rl.lab.viewer.runs import OpenRun, Places, Poller


def open_runs(paths: Sequence[Path], places: Places) -> list[OpenRun]:
    """The runs of a command line.

    Raises:
        UserError: one is no run, or is named twice.
    """
    folders = [ViewedRun(path) for path in paths]
    names = short_names([folder.path for folder in folders])
    return [
        OpenRun(number, name, folder, places)
        for number, (name, folder) in enumerate(zip(names, folders, strict=True))
    ]


def short_names(paths: Sequence[Path]) -> list[str]:
    """Names of folders, with as many folders above as tell them apart.

    Raises:
        UserError: one is named twice.
    """
    if len(set(paths)) < len(paths):
        raise UserError("a run is named twice")
    for depth in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-depth:]) for path in paths]
        if len(set(names)) == len(names):
            break
    return names


def serve(
    runs: Sequence[OpenRun],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    browse: bool = False,
    told: Callable[[str], None] = print,
) -> None:
    """Serve until interrupted those who open the address, which holds a token of its own.

    Args:
        runs: to look at.
        host: to listen at.
        port: 0: one that is free.
        browse: open the page in the user's browser.
        told: is told the address once it can be asked.

    Raises:
        UserError: the address cannot be listened at.
    """
    from docagent_rl.endpoints.serving import listen, run, url_of
    from docagent_rl.lab.viewer.app import make_app

    listener = listen(host, port)
    token = secrets.token_urlsafe(32)
    # browsers keep cookies by name and machine, whatever the port
    app = make_app(Api(runs, __version__), token, f"docagent-view-{listener.getsockname()[1]}")
    address = f"{url_of(listener)}/?token={token}"
    poller = Poller(runs)
    poller.start()
    told(address)
    if browse:
        webbrowser.open(address)
    try:
        run(app, listener)
    except KeyboardInterrupt:
        pass  # the way to end it
    finally:
        poller.stop()
