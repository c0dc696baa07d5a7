# One image for every role: init, workers, beat and Flower differ only by their command (compose.yaml).
FROM python:3.11-slim

ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1

# Nothing here needs root, and a worker runs what a message asks it to.
RUN useradd --create-home --uid 10001 worker

WORKDIR /src
COPY pyproject.toml requirements.lock README.md LICENSE celeryconfig.py ./
COPY neo4j_queue neo4j_queue
COPY tasks tasks
# The lock as constraints: its versions, without what only developers need.
RUN pip install --constraint requirements.lock ".[local,mcp]"

USER worker
WORKDIR /home/worker
CMD ["celery", "-A", "tasks", "worker"]
