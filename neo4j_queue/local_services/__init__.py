"""Two Neo4j servers and Redis on this machine, without Docker: `up` starts them, `down` leaves no process.

    services = LocalServices(ServicesConfig(), report=lambda news: print(news.message))
    services.up()
    print(services.environment())
    services.down()

Everything lives in one directory (`ServicesConfig.directory`): `graph/`, `jobs/` and `redis/`, each with its
data, its logs and the `process.json` that says which process is ours. The Neo4j files (120 MB) come from the
public Java repository once per user and version, into the cache directory.

The servers have random passwords (`passwords.json`, for this user alone) and listen on the loopback address only:
made for development, tests and benchmarks.
"""

from neo4j_queue.local_services.config import Progress, Report, ServicesConfig, free_ports
from neo4j_queue.local_services.failures import (
    AlreadyElsewhere,
    FetchFailed,
    MissingTools,
    PortInUse,
    ServiceError,
    ServiceFailed,
)
from neo4j_queue.local_services.neo4j_server import Neo4jServer
from neo4j_queue.local_services.redis_server import RedisServer
from neo4j_queue.local_services.service import Service, ServiceStatus
from neo4j_queue.local_services.services import LocalServices

__all__ = [
    "AlreadyElsewhere",
    "FetchFailed",
    "LocalServices",
    "MissingTools",
    "Neo4jServer",
    "PortInUse",
    "Progress",
    "RedisServer",
    "Report",
    "Service",
    "ServiceError",
    "ServiceFailed",
    "ServiceStatus",
    "ServicesConfig",
    "free_ports",
]
