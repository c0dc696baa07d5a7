// Jobs database, version 1. Each statement is a transaction of its own and may run any number of times.
// parameters: none
// rows:       none
// locks:      schema
CREATE CONSTRAINT embed_job_id IF NOT EXISTS FOR (j:EmbedJob) REQUIRE j.id IS UNIQUE;
CREATE CONSTRAINT embed_job_version IF NOT EXISTS
  FOR (j:EmbedJob) REQUIRE (j.entity_uid, j.model, j.version) IS UNIQUE;
CREATE CONSTRAINT embed_lease_token IF NOT EXISTS FOR (l:EmbedLease) REQUIRE l.token IS UNIQUE;
CREATE CONSTRAINT queue_control_name IF NOT EXISTS FOR (c:QueueControl) REQUIRE c.name IS UNIQUE;
CREATE CONSTRAINT embed_health_name IF NOT EXISTS FOR (h:EmbedHealth) REQUIRE h.name IS UNIQUE;
CREATE CONSTRAINT embed_worker_name IF NOT EXISTS FOR (w:EmbedWorker) REQUIRE w.name IS UNIQUE;
CREATE CONSTRAINT embed_archive_id IF NOT EXISTS FOR (a:EmbedArchive) REQUIRE a.id IS UNIQUE;
CREATE INDEX embed_job_due IF NOT EXISTS FOR (j:EmbedJob) ON (j.status, j.priority, j.available_at);
CREATE INDEX embed_job_lock IF NOT EXISTS FOR (j:EmbedJob) ON (j.status, j.lock_until);
CREATE INDEX embed_job_processed IF NOT EXISTS FOR (j:EmbedJob) ON (j.status, j.processed_at);
CREATE INDEX embed_lease_open IF NOT EXISTS FOR (l:EmbedLease) ON (l.open);
CREATE INDEX embed_lease_requested IF NOT EXISTS FOR (l:EmbedLease) ON (l.requested_at);
CREATE INDEX embed_lease_finished IF NOT EXISTS FOR (l:EmbedLease) ON (l.finished_at);
CREATE INDEX embed_archive_failed IF NOT EXISTS FOR (a:EmbedArchive) ON (a.failed_at);
MERGE (c:QueueControl {name: 'embedding'})
  ON CREATE SET c.seq = 0, c.turn = 0, c.halted = false;
MERGE (h:EmbedHealth {name: 'embedding'})
  ON CREATE SET h.verdicts = [], h.state = 'HEALTHY'
