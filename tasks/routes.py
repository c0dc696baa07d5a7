"""Queues, routes and priorities of all messages: the one place that names them.

Constants only: `celeryconfig.py` reads them while the app is being made.
"""

CONTROL = "control"
EMBED = "embed"

LEASE_BATCH = "tasks.dispatch.lease_batch"
EMBED_BATCH = "tasks.embed.embed_batch"
HEARTBEAT = "tasks.upkeep.heartbeat"
RECOVER_STALE = "tasks.upkeep.recover_stale"
CLEANUP = "tasks.upkeep.cleanup"
RECONCILE = "tasks.upkeep.reconcile"
RETRY_QUOTA = "tasks.upkeep.retry_quota"
RETRY_FAILED = "tasks.repair.retry_failed"
FORCE_GENERATE = "tasks.repair.force_generate_embedding"

# A task goes to the queue of the first pattern that fits.
ROUTES = {"tasks.embed.*": {"queue": EMBED}, "tasks.*": {"queue": CONTROL}}
# The tasks that go to the control workers, by the beginning of their name.
TO_CONTROL = ("tasks.dispatch.", "tasks.upkeep.", "tasks.repair.")

# The Redis transport's last priority (its first is 0, which all other messages have): for the next turns of sweeps and
# clean-ups, so that a tick never waits for the turns of several of them.
LAST = 9
# Batches of backfills: the message of an edit goes before those that wait.
BACKFILL = 6
