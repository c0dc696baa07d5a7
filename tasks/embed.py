"""Embedding: the only place that runs leased work."""

from dataclasses import asdict
from typing import Any

from celery import Task

from tasks import deployment, resources
from tasks.app import app


@app.task(bind=True)
def embed_batch(self: Task, token: str, job_ids: list[str]) -> dict[str, Any]:
    """Starts the lease, embeds its texts, writes the vectors, settles; asks for more leases when few wait."""
    if deployment.pass_on(self.request.headers, token, job_ids):
        return {"foreign": True}
    done = resources.pipeline(str(self.request.hostname or "direct")).run(token, job_ids)
    if done.wanted:
        resources.nudge()()
    return asdict(done)
