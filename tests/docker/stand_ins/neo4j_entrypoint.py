#!/usr/bin/python3
"""Stands in for the entry point of the official Neo4j image: the same variables become the same settings.

`NEO4J_a_b__c` is the setting `a.b_c` (of apoc.conf where it begins with `apoc`), `NEO4J_AUTH` the first password,
`NEO4J_PLUGINS` the plugins. Known by reading the official entry point; what it does with other variables is left out.
"""

import hashlib
import json
import os
import secrets
import shutil
from pathlib import Path

HOME = Path("/var/lib/neo4j")
DATA = Path("/data")
USER_ID = 7474
NO_SETTINGS = {"NEO4J_AUTH", "NEO4J_PLUGINS", "NEO4J_HOME", "NEO4J_EDITION"}
OURS = {
    "server.default_listen_address": "0.0.0.0",
    "server.http.enabled": "false",
    "server.https.enabled": "false",
    "server.directories.data": str(DATA),
    "server.directories.logs": f"{DATA}/logs",
    "server.directories.run": "/tmp",
    "server.directories.import": f"{HOME}/import",
    "server.directories.plugins": f"{HOME}/plugins",
    "server.directories.transaction.logs.root": f"{DATA}/transactions",
}
FLAGS = (
    "-XX:+UseParallelGC",
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


def settings() -> dict[str, str]:
    """Those of the variables, over ours."""
    found = dict(OURS)
    for name, value in os.environ.items():
        if name.startswith("NEO4J_") and name not in NO_SETTINGS and value:
            dotted = name.removeprefix("NEO4J_").replace("__", "\0").replace("_", ".").replace("\0", "_")
            found[dotted] = value
    return found


def write_first_user(auth: str) -> None:
    """The first password, for a server that has no user yet."""
    user, _, password = auth.partition("/")
    salt = secrets.token_bytes(32)
    digest = hashlib.sha256(salt + password.encode()).digest()
    for _ in range(1023):
        digest = hashlib.sha256(digest).digest()
    (DATA / "dbms").mkdir(exist_ok=True)
    (DATA / "dbms/auth.ini").write_text(f"{user}:SHA-256,{digest.hex().upper()},{salt.hex().upper()},1024:\n")


def main() -> None:
    found = settings()
    for name in ("conf", "plugins", "import"):
        (HOME / name).mkdir(exist_ok=True)
    if "apoc" in json.loads(os.environ.get("NEO4J_PLUGINS") or "[]"):
        for jar in (HOME / "labs").iterdir():
            shutil.copy(jar, HOME / "plugins")
        # As the official one: the plugin may do anything, unless a variable says what.
        found.setdefault("dbms.security.procedures.unrestricted", "apoc.*")
    auth = os.environ.get("NEO4J_AUTH", "")
    if auth == "none":
        found["dbms.security.auth_enabled"] = "false"
    elif auth:
        write_first_user(auth)
    for file, of_apoc in (("neo4j.conf", False), ("apoc.conf", True)):
        lines = [f"{name}={value}\n" for name, value in found.items() if name.startswith("apoc.") is of_apoc]
        (HOME / "conf" / file).write_text("".join(lines))
    for place in (DATA, HOME):
        for path in (place, *place.rglob("*")):
            os.chown(path, USER_ID, USER_ID)
    os.setgid(USER_ID)
    os.setuid(USER_ID)
    heap = found.get("server.memory.heap.max_size", "512m")
    places = (f"--home-dir={HOME}", f"--config-dir={HOME}/conf", "--console-mode")
    jars = f"{HOME}/lib/*:{HOME}/plugins/*"
    os.chdir(HOME)
    command = ["java", f"-Xms{heap}", f"-Xmx{heap}", *FLAGS, "-cp", jars]
    os.execvp("java", [*command, "org.neo4j.server.CommunityEntryPoint", *places])


main()
