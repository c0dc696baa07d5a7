"""Flower, the page that shows tasks and workers as they run, behind a password."""

import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from neo4j_queue.local_services.celery_processes import CELERY
from neo4j_queue.local_services.config import LOOPBACK, Report
from neo4j_queue.local_services.service import Service, telling_lines

USER = "operator"
ASK_TIMEOUT_S = 2.0
# `tasks` and `celeryconfig` lie beside the package, in a clone as in an installation.
APP_DIRECTORY = Path(__file__).parents[2]
TELLING = re.compile(r"[Ee]rror|[Ff]ailed|Can't|Cannot|in use|critical")


class FlowerServer(Service):
    """`celery -A tasks flower` on the broker of these services; `settings` is asked for theirs when it starts."""

    # It has nothing to finish.
    stop_grace_s = 5.0

    def __init__(
        self,
        port: int,
        directory: Path,
        report: Report,
        *,
        settings: Callable[[], Mapping[str, str]],
        password: Callable[[], str | None],
    ) -> None:
        super().__init__("flower", port, directory, report)
        self._settings = settings
        self._password = password

    @property
    def url(self) -> str:
        """The address for a browser."""
        return f"http://{LOOPBACK}:{self.port}"

    def prepare(self) -> Sequence[str]:
        """The password comes by the environment: every user of the machine can read a command line."""
        return [*CELERY, "flower", f"--address={LOOPBACK}", f"--port={self.port}"]

    def environment(self) -> Mapping[str, str]:
        """The shell's, with the settings of these services, and the user who may look."""
        paths = os.pathsep.join(filter(None, (str(APP_DIRECTORY), os.environ.get("PYTHONPATH"))))
        entry = {"FLOWER_BASIC_AUTH": f"{USER}:{self._password()}", "PYTHONPATH": paths}
        return {**os.environ, **self._settings(), **entry}

    def unready(self) -> str | None:
        """Ready = it answers the question that needs no password."""
        request = f"GET /healthcheck HTTP/1.0\r\nHost: {LOOPBACK}\r\n\r\n"
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=ASK_TIMEOUT_S) as connection:
                connection.sendall(request.encode())
                answer = connection.recv(64)
        except OSError as error:
            return f"  {error}"
        return None if b" 200 " in answer else f"  it answered {answer!r}"

    def reason(self) -> str:
        """The errors of the log."""
        return telling_lines(self.log, TELLING)
