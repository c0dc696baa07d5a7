"""The one seam for time: every statement takes `now`, epoch ms, and the database server's clock where it is null."""

from collections.abc import Callable

Clock = Callable[[], int | None]


def server_clock() -> None:
    """No time of our own: the statements take the database server's."""
