"""The trigger by which any change of an entity, by any program, puts it into the outbox.

It is APOC's: a statement that the server runs in each transaction that writes, before its commit. So a change and its
mark are one: no crash comes between them, and no lock is taken that the transaction does not hold already. What the
statement raised would fail that transaction; it raises nothing (it looks only at values and nodes that are there).

Not APOC's other phase, `afterAsync`: it loses marks in a crash, and compares each deleted node with all others (10,000
in one transaction took it 55 s). In either phase a transaction takes twice its memory.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from neo4j import Record
from neo4j.exceptions import Neo4jError

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database
from neo4j_queue.settings import Settings
from neo4j_queue.text import TextRecipe

PHASE = "before"
# Of every trigger that is ours; the label follows.
OURS = "neo4j-queue:"
# So often sweeps of the outbox are due while a trigger fills it: at each of beat's ticks (two seconds).
OUTBOX_EVERY_MS = 1_500
# The server looks for new triggers every `apoc.trigger.refresh`, a minute by default.
AT_WORK_WAIT_S, AT_WORK_POLL_S = 70.0, 0.5
ENABLE = "set apoc.trigger.enabled=true in apoc.conf of the graph's server, and restart it"
ALLOW = "add APOC core to the graph's server, and allow apoc.* in dbms.security.procedures.allowlist"

UNRESTRICT = (
    "set dbms.security.procedures.unrestricted=apoc.trigger.* in neo4j.conf of its server, and restart it"
)
_SANDBOXED = "Neo.ClientError.Procedure.ProcedureRegistrationFailed"
_NOT_FOUND = "Neo.ClientError.Procedure.ProcedureNotFound"
_FAILED = "Neo.ClientError.Procedure.ProcedureCallFailed"
_FORBIDDEN = "Neo.ClientError.Security."


class State(StrEnum):
    """How it stands with the trigger."""

    CURRENT = "current"
    ABSENT = "absent"
    OUTDATED = "outdated"
    PAUSED = "paused"
    OFF = "off"
    IMPOSSIBLE = "impossible"


@dataclass(frozen=True, slots=True)
class Found:
    """The state of the trigger, in words, with what to do. `others`: those that we made for other labels."""

    state: State
    detail: str
    advice: str | None = None
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trigger:
    """The trigger that belongs to some settings."""

    label: str
    params: Mapping[str, Any]

    @classmethod
    def of(cls, settings: Settings) -> "Trigger":
        """That of the entities that the settings mean."""
        label, key = settings.embed_entity_label, settings.embed_entity_key
        deleted = settings.embed_deleted_property
        watched = [*TextRecipe.from_settings(settings).properties, key, *([deleted] if deleted else [])]
        names = list(dict.fromkeys(watched))
        return cls(label, {"label": label, "key": key, "deleted": deleted, "names": names})

    @property
    def name(self) -> str:
        """Its name on the server."""
        return OURS + self.label

    @property
    def query(self) -> str:
        """Its statement."""
        return statement("triggers/mark")

    def is_same(self, row: Record) -> bool:
        """True if what the server shows is this one. APOC may put a version of Cypher before the statement."""
        body = self.query.partition("\n")[2]
        return bool(row["query"].endswith(body) and _plain(row["params"]) == dict(self.params))


def look(graph: Database, settings: Settings) -> Found:
    """How it stands with the trigger of these settings; changes nothing."""
    trigger = Trigger.of(settings)
    try:
        there = {row["name"]: row for row in _shown(graph)}
    except Neo4jError as error:
        return _trouble(error)
    others = tuple(sorted(name for name in there if name.startswith(OURS) and name != trigger.name))
    found = _judged(trigger, there.get(trigger.name))
    return replace(found, others=others)


def install(graph: Database, settings: Settings, *, wait_s: float = AT_WORK_WAIT_S) -> Found:
    """Puts the trigger onto the graph and waits until it is at work; the state afterwards."""
    trigger = Trigger.of(settings)
    before = look(graph, settings)
    if before.state in (State.OFF, State.IMPOSSIBLE):
        return before
    if before.state is not State.CURRENT:
        with _system(graph) as system:
            system.write(
                statement("triggers/install"),
                database=_name_of(graph),
                name=trigger.name,
                body=trigger.query,
                phase=PHASE,
                params=dict(trigger.params),
            )
    return _when_at_work(graph, settings, trigger, wait_s)


def remove(graph: Database, settings: Settings) -> bool:
    """Takes the trigger of these settings off the graph; True if there was one."""
    with _system(graph) as system:
        name = Trigger.of(settings).name
        return bool(system.write(statement("triggers/drop"), database=_name_of(graph), name=name))


def hasten(jobs: Database, *, on: bool) -> None:
    """Says how often the outbox is to be swept: while a trigger fills it, at each tick of beat."""
    jobs.write(statement("sweeps/hasten"), scope="outbox", every_ms=OUTBOX_EVERY_MS if on else None)


def is_counted_on(jobs: Database) -> bool:
    """True if `init --triggers` has said so."""
    return bool(jobs.read(statement("sweeps/hastened"), scope="outbox"))


def is_at_work(graph: Database, trigger: Trigger) -> bool:
    """True if the graph's database has taken the trigger over from the database `system`."""
    rows = graph.read(statement("triggers/at_work"))
    return any(row["name"] == trigger.name and trigger.is_same(row) and not row["paused"] for row in rows)


def _when_at_work(graph: Database, settings: Settings, trigger: Trigger, wait_s: float) -> Found:
    deadline = time.monotonic() + wait_s
    while not is_at_work(graph, trigger):
        if time.monotonic() > deadline:
            detail = f"the trigger {trigger.name} is installed, and not at work after {wait_s:.0f} s"
            return Found(State.ABSENT, detail, "look for it in the graph server's log")
        time.sleep(AT_WORK_POLL_S)
    return look(graph, settings)


def _judged(trigger: Trigger, row: Record | None) -> Found:
    again = "neo4j-queue init --triggers"
    if row is None:
        return Found(State.ABSENT, "no trigger")
    if not trigger.is_same(row) or row["selector"].get("phase") != PHASE:
        detail = f"the trigger {trigger.name} was made for other settings, or by another version"
        return Found(State.OUTDATED, detail, again)
    if row["paused"]:
        return Found(State.PAUSED, f"the trigger {trigger.name} is paused", again)
    watched = ", ".join(trigger.params["names"])
    return Found(State.CURRENT, f"the trigger {trigger.name} marks changes of {watched} by any program")


def _trouble(error: Neo4jError) -> Found:
    code, message = error.code or "", error.message or ""
    if code == _NOT_FOUND:
        return Found(State.IMPOSSIBLE, "apoc.trigger is not there, or not allowed", ALLOW)
    if code == _SANDBOXED:
        return Found(State.IMPOSSIBLE, "the server does not let apoc.trigger.* do its work", UNRESTRICT)
    if code == _FAILED and "apoc.trigger.enabled" in message:
        return Found(State.OFF, "APOC's triggers are off", ENABLE)
    if code.startswith(_FORBIDDEN):
        user = "give this user the right to run apoc.trigger.* on the database system, or let an administrator do it"
        return Found(State.IMPOSSIBLE, "this user may not see the triggers", user)
    raise error


def _shown(graph: Database) -> list[Record]:
    with _system(graph) as system:
        return system.read(statement("triggers/show"), database=_name_of(graph))


def _system(graph: Database) -> Database:
    return Database(replace(graph.address, database="system"), retry_time_s=0)


def _name_of(graph: Database) -> str:
    """The database's own name: triggers know no alias, and no capitals."""
    return str(graph.read(statement("server/store"))[0]["name"])


def _plain(params: Mapping[str, Any] | None) -> dict[str, Any]:
    return dict(params or {})
