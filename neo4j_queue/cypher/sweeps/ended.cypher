// Notes what a sweep that was done in one go has counted, with its time.
// parameters: scope, counts {seen, fresh, missing, failed, oldest_stale_at (epoch ms, or null)}, made_for (fingerprint of
//             the settings that it was done under), now
// rows:       none
// locks:      control (there must not be two nodes of one scope), then the sweep
MATCH (c:QueueControl {name: 'embedding'})
SET c._lock = true
WITH coalesce($now, datetime.realtime().epochMillis) AS now
MERGE (s:EmbedSweep {scope: $scope})
SET s.ended_at = now, s.last_seen = $counts.seen, s.last_fresh = $counts.fresh, s.last_missing = $counts.missing,
  s.last_failed = $counts.failed, s.last_oldest_stale_at = $counts.oldest_stale_at, s.last_made_for = $made_for
