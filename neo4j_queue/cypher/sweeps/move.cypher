// Notes how far a sweep has come. `after` null: it has come to its end, and its counts are kept with their time.
// parameters: scope, token, after, counts {seen, fresh, queued, standing, missing, deleted, refused, oldest_stale_at},
//             failed, marks {marks, marked_for} (what a sweep of changes leaves at its end), now
// rows:       one when the turn is still ours: scope
// locks:      the sweep
MATCH (s:EmbedSweep {scope: $scope})
SET s._lock = true
WITH s, coalesce($now, datetime.realtime().epochMillis) AS now WHERE s.token = $token
SET s += $counts
SET s.after = $after, s.moved_at = CASE WHEN $after IS NOT NULL THEN now END,
  s.token = CASE WHEN $after IS NOT NULL THEN s.token END
FOREACH (_ IN CASE WHEN $after IS NULL THEN [1] ELSE [] END |
  SET s.ended_at = now, s.last_seen = s.seen, s.last_fresh = s.fresh, s.last_missing = s.missing,
    s.last_failed = $failed, s.last_oldest_stale_at = s.oldest_stale_at, s.last_made_for = s.made_for
  SET s += $marks)
RETURN s.scope AS scope
