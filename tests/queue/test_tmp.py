from tests.queue.test_rate_budget import World, INTERVAL_MS, LOCK_MS,WIPE,STEPS_WEIGHTED
from tests.queue.scenery import make_jobs
import random
def test_x(make_queue, jobs_db, clock):
    rng = random.Random(1)
    for k in range(10):
        jobs_db.autocommit(WIPE)
        queue = make_queue(embedding_rate_limit_tokens=3, embedding_rate_limit_interval=INTERVAL_MS, embed_batch_size=1, embed_job_max_crashes=100,
            embed_job_lock_duration_ms=LOCK_MS, embed_job_heartbeat_interval_ms=7_000, embed_job_start_deadline_ms=5_000, embed_request_timeout_ms=4_000)
        make_jobs(jobs_db, 60, at=clock.now - 10_000)
        w = World(queue, clock)
        names=[name for name, weight in STEPS_WEIGHTED.items() for _ in range(weight)]
        for _ in range(40):
            w.step(rng.choice(names), rng.randint(0,30))
        print(len(w.holders), len(w.provider.sent), w.provider.most_in_any_window(INTERVAL_MS), clock.now)
