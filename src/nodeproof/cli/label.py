"""`nodeproof label`: the labelling app on the folder of a fit."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
import webbrowser
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from nodeproof import __version__
from nodeproof.app.journal import JOURNAL, Journal
from nodeproof.app.labels import LabelState
from nodeproof.cli.console import note, screen
from nodeproof.cli.fit_files import FitFiles
from nodeproof.cli.results import (
    MOST_NAMES,
    made_safe,
    outdated_files,
    summarise,
    write_csv,
    write_predictions,
)
from nodeproof.cli.terminal import as_text, check_file, import_parts, print_document
from nodeproof.errors import count_of
from nodeproof.fitted import Fitted
from nodeproof.saving.model import load_model, save_model
from nodeproof.storage.atomic import atomic_folder, atomic_path, check_writable

__all__ = ["run_label"]

_WRITTEN = ("model.npz", "predictions.csv", "summary.json")


def run_label(
    file: Path,
    *,
    port: int,
    browser: bool,
    export: Path | None,
    safe_csv: bool,
    terms: tuple[str, ...],
    own_experts: tuple[str, ...],
    as_json: bool,
) -> None:
    """Serve the app until Ctrl-C, or export the labels and end."""
    folder = file.parent
    journal = Journal(folder / JOURNAL)
    if export is not None:
        check_file(export, file, (journal.path,))
    import_parts(terms, own_experts)
    if export is not None:
        fitted = load_model(file)
        state = LabelState(fitted, journal)
        columns = state.columns()
        with atomic_path(export) as temporary:
            write_csv(columns, temporary, safe_csv)
        for line in state.notes():
            note(line)
        written = {"nodeproof": __version__, "labels": len(columns["node"]), "export": str(export)}
        if as_json:
            print_document(written)
        else:
            count = count_of(len(columns["node"]), "label")
            screen.print(f"written: {export}, {count}", soft_wrap=True)
        return
    check_writable(folder)
    # Before the model is read: without the extra, that would be in vain.
    from nodeproof.app.server import Server
    from nodeproof.app.session import Session

    session = Session(load_model(file), journal, _Folder(file, safe_csv))
    server = Server(session, port)

    def ready(address: str) -> None:
        if as_json:
            print_document(
                {"nodeproof": __version__, "address": address, "journal": str(journal.path)}
            )
        else:
            screen.print(f"The app is at {address}", soft_wrap=True, highlight=False)
            screen.print(f"Labels are saved at once, in {journal.path}. Ctrl-C ends the app.",
                         soft_wrap=True)  # fmt: skip
        sys.stdout.flush()
        if browser:
            webbrowser.open(address)

    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(server, ready))
    if session.job.what:
        note("waiting for the end of what is running; Ctrl-C ends it at once, labels are saved")
    try:
        session.close()
    except KeyboardInterrupt:
        os._exit(130)  # a fit in another thread cannot be stopped, and files appear whole or never


async def _serve(server: Any, ready: Any) -> None:
    """Answer requests until Ctrl-C or the end of the terminal."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        with suppress(AttributeError, NotImplementedError):  # on Windows Ctrl-C alone ends it
            loop.add_signal_handler(getattr(signal, name), stop.set)
    await server.run(ready, stop)


@dataclass
class _Folder:
    """The folder of a fit, where results go."""

    file: Path
    safe: bool

    def write(self, fitted: Fitted) -> list[str]:
        """Write model, predictions and summary; what they make outdated is removed."""
        folder = self.file.parent
        outdated = outdated_files(folder, _WRITTEN, ())
        files = FitFiles(
            None, fitted.n_nodes, fitted.n_links or 0, None, None, None, [], fitted.node_ids
        )
        summary = summarise(fitted, files, list(fitted.notes), fitted.settings.seed() or 0, 0.0)
        names = [] if fitted.feature_names is None else fitted.feature_names.tolist()
        summary |= {"features": fitted.n_features or 0, "feature_names": names[:MOST_NAMES]}
        with atomic_folder(folder, without=outdated) as temporary:
            write_predictions(fitted, files, temporary / "predictions.csv", self.safe)
            (temporary / "summary.json").write_text(as_text(summary), encoding="utf-8")
            save_model(fitted, temporary / self.file.name)
        return [self.file.name, *_WRITTEN[1:]]

    def table(self, columns: dict[str, NDArray[Any]]) -> bytes:
        """Return columns as CSV."""
        table = pa.table(columns)
        out = io.BytesIO()
        pyarrow.csv.write_csv(made_safe(table) if self.safe else table, out)
        return out.getvalue()
