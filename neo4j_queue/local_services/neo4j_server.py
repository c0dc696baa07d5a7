"""One Neo4j Community server: its `neo4j.conf`, its command line, and what its log says when it dies."""

import re
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from neo4j.exceptions import AuthError, DriverError, Neo4jError

from neo4j_queue.database import Address, Database
from neo4j_queue.local_services.config import LOOPBACK, Report, ServicesConfig
from neo4j_queue.local_services.failures import ServiceFailed
from neo4j_queue.local_services.passwords import FILE, USER, first_user, no_password, write_private
from neo4j_queue.local_services.requirements import java_command
from neo4j_queue.local_services.service import Service, telling_lines

FOLDERS = ("conf", "data", "logs", "run", "import", "tx")
CONNECT_TIMEOUT_S = 1.0
TELLING = re.compile(
    r"\bERROR\b|Caused by|^Error|Exception in thread|Failed to read config|Unrecognized|declared multiple times|"
    r"already in use|OutOfMemory|No space left|Permission denied|Could not"
)
# Lets `init --triggers` work, and at once: by default a new trigger is looked for every minute. Where none is
# installed, APOC takes no part in any transaction.
APOC_CONF = """\
# Written at each start; changes are lost.
apoc.trigger.enabled={enabled}
apoc.trigger.refresh=1000
"""
JAVA_FLAGS = (
    # G1 cost 1.30 processor seconds per 1,000 jobs where this one cost 0.89 (both servers, warm, two cores).
    "-XX:+UseParallelGC",
    # Compiles later, and so less of what only the boot needs: ready after 16.6 instead of 20.9 CPU seconds on
    # two busy cores, and no slower afterwards (10 boots in 11.8, but writes cost a quarter more).
    "-XX:CompileThresholdScaling=3",
    "-XX:-OmitStackTraceInFastThrow",
    # What the server's own start script opens: its page cache and Netty reach into these packages.
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
    "--enable-native-access=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dlog4j2.disable.jmx=true",
    "-Djol.skipHotspotSAAttach=true",
    "-Dfile.encoding=UTF-8",
)


class Neo4jServer(Service):
    """One server with one database, named `database` before its first start (it cannot be renamed later).

    `triggers`: APOC may run statements in the transactions of others. `password` is asked when it is needed; None: the
    server lets in whoever reaches it.
    """

    # A clean stop takes half a second; a checkpoint of a large store under load takes longer.
    stop_grace_s = 60.0

    def __init__(
        self,
        name: str,
        port: int,
        database: str,
        config: ServicesConfig,
        home: Path,
        report: Report,
        *,
        triggers: bool = False,
        password: Callable[[], str | None] = no_password,
    ) -> None:
        super().__init__(name, port, config.directory / name, report)
        self._password = password
        self._triggers = triggers
        self.database = database
        self._config = config
        self._home = home

    @property
    def url(self) -> str:
        """The Bolt URI."""
        return f"bolt://{LOOPBACK}:{self.port}"

    @property
    def address(self) -> Address:
        """The address that `Database` takes."""
        password = self._password()
        return Address(self.url, self.database, USER if password else None, password)

    def prepare(self) -> Sequence[str]:
        """Writes the configuration anew, so that a changed port or version takes effect at the next start."""
        # Asked before the first folder is there: a directory with data and no passwords keeps none.
        password = self._password()
        for folder in FOLDERS:
            (self.directory / folder).mkdir(exist_ok=True)
        lines = [f"{name}={value}" for name, value in self.settings().items()]
        text = "# Written at each start; changes are lost.\n" + "\n".join(lines) + "\n"
        (self.directory / "conf" / "neo4j.conf").write_text(text, encoding="utf-8")
        apoc = APOC_CONF.format(enabled="true" if self._triggers else "false")
        (self.directory / "conf" / "apoc.conf").write_text(apoc, encoding="utf-8")
        if password:
            # A server that has no user yet takes its first one from this file; later it is not read again.
            (self.directory / "data" / "dbms").mkdir(exist_ok=True)
            write_private(self.directory / "data" / "dbms" / "auth.ini", first_user(password))
        heap = ("-Xms256m", f"-Xmx{self._config.java_heap}")
        jars = f"{self._home / 'lib'}/*:{self._home / 'plugins'}/*"
        places = (f"--home-dir={self.directory}", f"--config-dir={self.directory / 'conf'}")
        server = ("org.neo4j.server.CommunityEntryPoint", *places, "--console-mode")
        options = (*heap, *JAVA_FLAGS, *self._config.java_options)
        return [java_command(), *options, "-cp", jars, *server]

    def settings(self) -> dict[str, str]:
        """The lines of `neo4j.conf`. The server refuses to start on a name that it does not know."""
        here = self.directory
        listen = f"{LOOPBACK}:{self.port}"
        settings = {
            "server.directories.data": f"{here}/data",
            "server.directories.logs": f"{here}/logs",
            "server.directories.run": f"{here}/run",
            "server.directories.import": f"{here}/import",
            "server.directories.plugins": f"{self._home}/plugins",
            "server.directories.transaction.logs.root": f"{here}/tx",
            "server.bolt.enabled": "true",
            "server.bolt.listen_address": listen,
            "server.bolt.advertised_address": listen,
            "server.http.enabled": "false",
            "server.https.enabled": "false",
            "initial.dbms.default_database": self.database,
            # Loopback alone keeps no web page out: Bolt speaks WebSocket to any of them.
            "dbms.security.auth_enabled": "true" if self._password() else "false",
            "dbms.security.procedures.allowlist": "apoc.*,db.*,dbms.*,tx.*",
            # Triggers take part in every transaction, which no other procedure of APOC core needs.
            "dbms.security.procedures.unrestricted": "apoc.trigger.*",
            "dbms.usage_report.enabled": "false",
            # Both have no bound by default: one lost client could hold a lock without an end.
            "db.lock.acquisition.timeout": "5s",
            "db.transaction.timeout": "60s",
            "server.memory.pagecache.size": "128m",
            # Lets the driver notice a dead server: its sockets have no read timeout of their own.
            "server.bolt.connection_keep_alive": "10s",
            # Netty waits five seconds, twice, for late connections before a stop: 10.3 s against 0.5 s.
            "internal.dbms.bolt.netty_server_shutdown_quiet_period": "0",
        }
        if self._config.throwaway:
            settings["db.tx_log.rotation.retention_policy"] = "keep_none"
            # Reserved in advance for each of two databases: 515 MB per server with the default of 256 MB.
            settings["db.tx_log.rotation.size"] = "64M"
        return settings | dict(self._config.neo4j_settings)

    def unready(self) -> str | None:
        """Ready = the database lets us in and answers, and APOC is loaded.

        Raises `ServiceFailed` if it refuses the password: waiting would not help.
        """
        try:
            socket.create_connection((LOOPBACK, self.port), timeout=CONNECT_TIMEOUT_S).close()
        except OSError as error:
            return f"  {error}"
        try:
            with Database(self.address, retry_time_s=0) as database:
                database.autocommit("CYPHER 5 RETURN apoc.version() AS version")
        except AuthError as error:
            if self._password() is None:
                return None  # authentication was asked for by a setting of the caller's
            what = f"does not know the password of {self._config.directory / FILE}"
            raise ServiceFailed(self.name, what, f"  {error}", self.log) from None
        except (DriverError, Neo4jError, OSError) as error:
            return f"  {error}"
        return None

    def reason(self) -> str:
        """The errors and causes in the log."""
        return telling_lines(self.log, TELLING)
