"""Ctrl-C while the program is still loading ends it with one line and no stack trace.

`KeyboardInterrupt` does not do for that: its trace shows the inside of a module that is being imported, and one that is
raised in a callback of the import machinery is printed and dropped.
"""

# Loaded first, before Ctrl-C is handled: only modules that load in no time are imported.
import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130  # what a shell gives for a program ended by Ctrl-C
LINE = "neo4j-queue: interrupted"


def end_at_once_while_loading() -> None:
    """From now on Ctrl-C ends the process at once during imports of the command line itself; otherwise as usual.

    The imports of a command that has begun its work are not among them: it cleans up as usual.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)


def as_usual() -> None:
    """Restores the usual handling of Ctrl-C."""
    if signal.getsignal(signal.SIGINT) is _interrupted:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupted(_signal: int, frame: FrameType | None) -> None:
    if _loading(frame):
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, f"{LINE}\n".encode())
        os._exit(INTERRUPTED)
    raise KeyboardInterrupt


def _loading(frame: FrameType | None) -> bool:
    """True if the outermost import in progress is one of the command line or of the whole program."""
    importer: FrameType | None = None
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            importer = frame.f_back
        frame = frame.f_back
    name = str(importer.f_globals.get("__name__")) if importer is not None else ""
    return name in ("__main__", "runpy", "neo4j_queue.cli") or name.startswith("neo4j_queue.cli.")
