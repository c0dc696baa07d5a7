"""`make chaos`: entities are written and embedded while everything breaks, and then an audit looks for what was lost.

    make chaos                                a random seed, 20,000 jobs, 20 faults
    make chaos JOBS=100000 SEED=7 FAULTS=50   a run to be repeated

Ends with 1 when the audit found a violation.
"""

import random
import threading
import time
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.chaos_audit import Audit, audit
from benchmarks.chaos_faults import LIBFAKETIME, SKEWED, WAITS_FOR_LOCK, Chaos, Fault, faketime_library
from benchmarks.chaos_world import PAGE, POLL_S, SETTINGS, World
from benchmarks.report import Report, Table, Target, console
from benchmarks.stage import Say, open_stage
from neo4j_queue.errors import Neo4jQueueError

# Between two faults, in seconds.
REST_S = (0.5, 3.0)
# Each fault finds at least so many jobs to be done.
WORK = 400
BACK_S = 90.0
SWEEP_EVERY_S = 5.0
DRAIN_STALL_S = 180.0
SAY_EVERY_S = 10.0


def main(
    jobs: Annotated[int, typer.Option(help="Entities, each with a job.", min=100)] = 20_000,
    faults: Annotated[int, typer.Option(help="How many faults.", min=0)] = 20,
    seed: Annotated[int | None, typer.Option(help="Repeats the run with this seed.")] = None,
    workers: Annotated[int, typer.Option(help="Embed workers, of two slots each.", min=1)] = 2,
) -> None:
    """Breaks everything in turn while jobs run, and audits what is left."""
    seed = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    news, tables = Console(stderr=True), console()
    news.print(f"seed {seed}: make chaos JOBS={jobs} SEED={seed} FAULTS={faults}", highlight=False)
    try:
        with (
            open_stage(lambda line: news.print(line, highlight=False)) as stage,
            World(stage, workers) as world,
        ):
            report, good = _run(world, jobs, faults, seed, lambda line: news.print(line, highlight=False))
    except Neo4jQueueError as error:
        news.print(str(error), style="red")
        raise typer.Exit(error.exit_code) from None
    report.show(tables)
    news.print(f"written to {report.save()}")
    if not good:
        raise typer.Exit(1)


def _run(world: World, jobs: int, faults: int, seed: int, say: Say) -> tuple[Report, bool]:
    chance = random.Random(seed)
    chaos = Chaos(world, chance)
    began = time.monotonic()
    offset_ms = (time.time() - world.provider.clock()) * 1000
    writer = threading.Thread(target=_write, args=(world, jobs), name="writer", daemon=True)
    writer.start()
    _wait_warm(world)
    for n, kind in enumerate(chaos.order(faults), start=1):
        time.sleep(chance.uniform(*REST_S))
        _see_to_work(world, chance)
        fault = chaos.strike(kind)
        _see_to_work(world, chance)
        _wait_back(world, fault, chance)
        world.restart_dead()
        idle = (
            "nothing completed"
            if fault.idle_ms is None
            else f"first completed job after {fault.idle_ms:,} ms"
        )
        say(f"  {n}/{faults} {kind}, {fault.ended_at - fault.began_at:,} ms: {idle}")
    writer.join()
    _drain(world, say)
    seconds = time.monotonic() - began
    found = audit(world, chaos.done, offset_ms)
    found.count("processes that ended without having been killed", world.died)
    report = Report("chaos", {"jobs": jobs, "faults": faults, "seed": seed})
    report.tables += [_violations(found), _recovery(chaos.done), _inputs(found, jobs, seconds)]
    report.targets += _targets(chaos.done)
    report.notes += [f"seed {seed}; {seconds:.0f} s", *found.examples]
    if faketime_library() is None:
        report.notes.append(f"LEFT OUT: {SKEWED}: no {LIBFAKETIME} here (Debian: apt-get install faketime)")
    late = [fault.kind for fault in chaos.done if fault.idle_ms is None]
    report.notes += [f"nothing was completed within {BACK_S:.0f} s after: {kind}" for kind in late]
    return report, found.good and not late


def _write(world: World, jobs: int) -> None:
    for first in range(0, jobs, PAGE):
        world.create(first, min(PAGE, jobs - first))


def _wait_warm(world: World) -> None:
    """Waits for the first completed job: a cold start is no recovery."""
    deadline = time.monotonic() + BACK_S
    while world.first_completed_after(0) is None:
        if time.monotonic() > deadline:
            raise Neo4jQueueError(f"nothing was completed within {BACK_S:.0f} s of the start")
        time.sleep(POLL_S)


def _see_to_work(world: World, chance: random.Random) -> None:
    """Keeps work in the queue: a fault that meets an idle queue shows nothing."""
    status = world.status()
    if status is not None and status.unfinished < WORK:
        world.edit(chance, WORK)


def _wait_back(world: World, fault: Fault, chance: random.Random) -> None:
    deadline, swept = time.monotonic() + BACK_S, time.monotonic()
    while time.monotonic() < deadline:
        at = world.first_completed_after(fault.ended_at)
        if at is not None:
            fault.idle_ms = at - fault.ended_at
            return
        world.restart_dead()
        if time.monotonic() - swept > SWEEP_EVERY_S:
            # Entities that were written while the jobs database was away are all the work that there may be.
            world.sweep()
            # A database that did not answer at the end of the fault was not given any work, and an empty queue is idle.
            _see_to_work(world, chance)
            swept = time.monotonic()
        time.sleep(POLL_S)


def _drain(world: World, say: Say) -> None:
    left, moved, swept, said = -1, time.monotonic(), 0.0, 0.0
    while True:
        world.restart_dead()
        now = time.monotonic()
        if now - swept > SWEEP_EVERY_S:
            world.sweep()
            swept = now
        status = world.status()
        if status is not None:
            if not status.unfinished and world.all_fresh():
                return
            if status.unfinished != left:
                left, moved = status.unfinished, now
            if now - said > SAY_EVERY_S:
                said = now
                say(f"  {status.completed:,} jobs completed, {status.unfinished:,} to do")
        if now - moved > DRAIN_STALL_S:
            say(f"  {left:,} jobs are left and nothing moved for {DRAIN_STALL_S:.0f} s")
            return
        time.sleep(POLL_S)


def _violations(found: Audit) -> Table:
    table = Table("What must not be", {"what": "violation", "count": "cases"})
    for what, count in found.violations.items():
        table.add(what=what, count=count)
    return table


def _recovery(faults: list[Fault]) -> Table:
    table = Table(
        "From the end of a fault to the first completed job",
        {
            "what": "fault",
            "times": "times",
            "lasted": "took ms (worst)",
            "idle": "idle after its end, ms (worst)",
            "back": "from its begin, ms (worst)",
        },
    )
    for kind in sorted({fault.kind for fault in faults}):
        those = [fault for fault in faults if fault.kind == kind]
        table.add(
            what=kind,
            times=len(those),
            lasted=max(fault.ended_at - fault.began_at for fault in those),
            idle=max((f.idle_ms for f in those if f.idle_ms is not None), default=None),
            back=max((f.back_ms for f in those if f.back_ms is not None), default=None),
        )
    return table


def _targets(faults: list[Fault]) -> list[Target]:
    """Back at work within the start deadline, or the lock of started work, and two ticks of the recovery."""
    ticks = 2 * int(SETTINGS["embed_job_recovery_interval"])
    dead = [fault for fault in faults if fault.kind in WAITS_FOR_LOCK]
    others = [fault for fault in faults if fault.kind not in WAITS_FOR_LOCK]
    return [
        Target(f"idle after {what}, ms (worst)", max(map(_idle_ms, those)), int(SETTINGS[bound]) + ticks)
        for what, those, bound in (
            ("the death of a worker", dead, "embed_job_lock_duration_ms"),
            ("any other fault", others, "embed_job_start_deadline_ms"),
        )
        if those
    ]


def _idle_ms(fault: Fault) -> int:
    """The time of the wait, where no job was completed."""
    return round(BACK_S * 1000) if fault.idle_ms is None else fault.idle_ms


def _inputs(found: Audit, jobs: int, seconds: float) -> Table:
    table = Table("Inputs that the provider answered", {"what": "what", "count": "count"})
    table.add(what="different texts", count=found.texts)
    table.add(what="inputs", count=found.inputs_paid)
    table.add(what="extra inputs", count=found.extra)
    table.add(what="extra inputs that a crash explains", count=found.explained)
    table.add(what="entities per second, faults included", count=round(jobs / seconds))
    return table


if __name__ == "__main__":
    typer.run(main)
