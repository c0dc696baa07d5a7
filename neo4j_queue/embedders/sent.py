"""When this thread last sent bytes to a provider.

A provider counts a request when it arrives. Looking up a name, connecting and TLS can take seconds before that, so the
begin of a call is not the moment from which a window of the rate limit holds.
"""

import threading
import time


class _Moment(threading.local):
    at: float | None = None


_moment = _Moment()


def note_sent() -> None:
    """Bytes of a request have just left this thread."""
    _moment.at = time.monotonic()


def last_sent(began: float) -> float:
    """Seconds of `time.monotonic`: when this thread last sent bytes since `began`; `began` itself if it sent none."""
    return began if _moment.at is None else max(began, _moment.at)
