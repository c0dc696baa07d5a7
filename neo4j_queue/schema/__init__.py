"""The schema of both databases: `migrate_*` create what is missing, `check_*` only look."""

from neo4j_queue.schema.graph import check_graph, migrate_graph, unprepared
from neo4j_queue.schema.graph_schema import GraphSchema
from neo4j_queue.schema.indexes import Report, indexes
from neo4j_queue.schema.jobs import check_jobs, migrate_jobs, refuse_unprepared

__all__ = [
    "GraphSchema",
    "Report",
    "check_graph",
    "check_jobs",
    "indexes",
    "migrate_graph",
    "migrate_jobs",
    "refuse_unprepared",
    "unprepared",
]
