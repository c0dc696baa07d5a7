# One image for every role: init, workers, beat, serve and Flower differ only by their command (compose.yaml).
FROM python:3.11-slim AS build

ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1

RUN python3 -m venv /opt/neo4j-queue
ENV PATH=/opt/neo4j-queue/bin:$PATH

WORKDIR /src
COPY pyproject.toml requirements.lock README.md LICENSE celeryconfig.py ./
COPY neo4j_queue neo4j_queue
COPY tasks tasks
# The lock as constraints: its versions, without what only developers need; for what builds the package too.
RUN PIP_CONSTRAINT=/src/requirements.lock pip install ".[local,mcp]" \
    && find /opt/neo4j-queue -name __pycache__ -prune -exec rm -rf {} +


FROM python:3.11-slim

ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PATH=/opt/neo4j-queue/bin:$PATH

# Nothing here needs root, and a worker runs what a message asks it to.
RUN useradd --create-home --uid 10001 worker
COPY --from=build /opt/neo4j-queue /opt/neo4j-queue
COPY deploy/docker/run-service /usr/local/bin/run-service

# By number, so that Kubernetes can see that it is not root.
USER 10001
WORKDIR /home/worker
CMD ["celery", "-A", "tasks", "worker"]
# Of that command; compose.yaml has one for each role. A question starts a Python: not more often than needed.
HEALTHCHECK --interval=60s --timeout=30s --start-period=60s --retries=3 \
    CMD celery -A tasks inspect ping --timeout 10 -d "celery@$HOSTNAME"
