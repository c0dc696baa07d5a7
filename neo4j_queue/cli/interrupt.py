"""Ctrl-C while the program is still loading: an end without a stack trace, whatever is being imported just then.

`KeyboardInterrupt` is no help there: it shows the inside of somebody's module, and one that comes in a callback of the
import machinery is printed and forgotten.
"""

# Loaded before anything is looked after: only what costs next to nothing is imported.
import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130  # what a shell gives for a program ended by Ctrl-C
LINE = "neo4j-queue: interrupted"


def end_at_once_while_loading() -> None:
    """From now on Ctrl-C ends the process during imports of the command line itself; otherwise it is as ever.

    A command that has begun its work imports from elsewhere, if at all, and cleans up as it always does.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)


def as_ever() -> None:
    """Takes that back."""
    if signal.getsignal(signal.SIGINT) is _interrupted:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupted(_signal: int, frame: FrameType | None) -> None:
    if _loading(frame):
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, f"{LINE}\n".encode())
        os._exit(INTERRUPTED)
    raise KeyboardInterrupt


def _loading(frame: FrameType | None) -> bool:
    """Is the outermost import in progress one of the command line, or the one of the whole program?"""
    importer: FrameType | None = None
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            importer = frame.f_back
        frame = frame.f_back
    name = str(importer.f_globals.get("__name__")) if importer is not None else ""
    return name in ("__main__", "runpy", "neo4j_queue.cli") or name.startswith("neo4j_queue.cli.")
