"""Running jobs as an operator sees them: who holds them, since when, and how to take them back."""

from neo4j_queue.cli.output import iso
from neo4j_queue.jobs import JobRequest
from neo4j_queue.queue import listing
from tests.celery.conftest import MakeWorld, Run, World
from tests.provider import ProviderServer

TEMPORARY = 75
# Nothing runs out while commands look at it.
UNHURRIED = {
    "EMBED_JOB_LOCK_DURATION_MS": "600000",
    "EMBED_JOB_HEARTBEAT_INTERVAL_MS": "30000",
    "EMBED_JOB_START_DEADLINE_MS": "200000",
    "EMBED_REQUEST_TIMEOUT_MS": "110000",
}


def held_by(world: World, worker: str, count: int, prefix: str) -> list[str]:
    """The ids of jobs that a worker of this name has begun."""
    world.create(count, prefix)
    (lease,) = world.queue.lease("control@test", batches=1).leases
    world.queue.start(lease.token, lease.job_ids, worker=worker)
    return sorted(lease.job_ids)


def test_release_of_a_worker_takes_its_jobs_and_no_others(world: World, run: Run) -> None:
    """Seen to fail without the comparison of names: it takes all six."""
    one, other = held_by(world, "embed@one", 4, "a"), held_by(world, "embed@other", 2, "b")
    shown = run("release", "--worker", "embed@one", "--dry-run", "--json")
    assert shown["dry_run"] is True
    assert sorted(job["id"] for job in shown["would_release"]) == one
    assert {job["worker"] for job in shown["would_release"]} == {"embed@one"}
    assert world.queue.status().processing == 6
    assert sorted(run("release", "--worker", "embed@one", "--json")["released"]) == one
    assert {job.id for job in listing.held(world.jobs_db)} == set(other)
    assert "workers with running jobs: embed@other" in run("release", "--worker", "embed", code=1, both=True)


def test_a_job_that_was_leased_again_meanwhile_stays_with_its_new_holder(world: World) -> None:
    """Seen to fail without the tokens in jobs/release_jobs."""
    ids = held_by(world, "embed@dead", 2, "a")
    seen = listing.held(world.jobs_db)
    world.queue.release_jobs(ids)
    (again,) = world.queue.lease("control@test", batches=1).leases
    assert world.queue.release_jobs(ids, {job.token for job in seen}) == []
    assert {job.token for job in listing.held(world.jobs_db)} == {again.token}


def test_orphans_are_released_and_what_a_living_worker_runs_is_not(
    make_world: MakeWorld, run: Run, provider: ProviderServer
) -> None:
    """A dead worker's jobs and a living one's run side by side. Seen to fail without the look at what workers run."""
    world = make_world(provider, **UNHURRIED)
    dead = held_by(world, "embed@dead", 3, "a")
    with provider.held():
        world.create(2, "b")
        living = world.celery.worker("embed,control", 2)
        world.celery.call("call", "tasks.dispatch.lease_batch")
        provider.wait_for(waiting=1, timeout_s=60)
        shown = run("release", "--orphaned", "--dry-run", "--json", **world.environment)
        assert sorted(job["id"] for job in shown["would_release"]) == dead
        listed = run("jobs", "list", "--status", "processing", **world.environment)
        assert "embed@dead" in listed
        assert living.name in listed
        assert sorted(run("release", "--orphaned", "--json", **world.environment)["released"]) == dead
        assert {job.worker for job in listing.held(world.jobs_db)} - {None} == {living.name}
    world.drained(within_s=60)
    assert world.all_fresh(5)


def test_no_orphan_is_found_where_no_worker_can_be_asked(world: World, run: Run) -> None:
    """Silence of the broker says nothing: nothing is released."""
    held_by(world, "embed@dead", 2, "a")
    run(
        "release",
        "--orphaned",
        "--json",
        code=TEMPORARY,
        both=True,
        CELERY_BROKER_URL="redis://127.0.0.1:9/0",
    )
    assert world.queue.status().processing == 2


def test_a_halted_queue_says_since_when_and_how_to_go_on(world: World, run: Run) -> None:
    """Seen to fail before: the reason stood there alone."""
    world.queue.halt("no key")
    halted_at = world.queue.control.state().halted_at
    assert halted_at is not None
    line = next(line for line in run("status").splitlines() if line.startswith("halted"))
    assert (
        line.split(maxsplit=1)[1].strip() == f"since {iso(halted_at)}: no key (`neo4j-queue resume` ends it)"
    )


def test_jobs_are_listed_since_a_time(world: World, run: Run) -> None:
    """Each state has a statement of its own. Seen to fail without the bound in each."""
    old, new = failed(world, "old"), failed(world, "new")
    world.jobs_db.write(
        "MATCH (j:EmbedJob {id: $id}) SET j.processed_at = timestamp() - 7200000, j.created_at = timestamp() - 7200000",
        id=old,
    )
    waiting = held_by(world, "embed@dead", 1, "a")

    def listed(*more: str) -> set[str]:
        return {job["id"] for job in run("jobs", "list", "--json", *more)}

    assert listed("--since", "3h") == {old, new, *waiting}
    assert listed("--since", "1h") == {new, *waiting}
    assert listed("--since", "1h", "--status", "failed") == {new}
    assert listed("--since", "2200-01-01") == set()
    assert listed("--entity", "old", "--since", "1h") == set()
    assert listed("--entity", "old", "--since", "3h") == {old}


def failed(world: World, name: str) -> str:
    """The id of a job that failed."""
    (result,) = world.queue.enqueue(JobRequest(name, "m", "v"))
    world.jobs_db.write(
        "MATCH (j:EmbedJob {id: $id}) SET j.status = 'failed', j.processed_at = timestamp()", id=result.id
    )
    return result.id
