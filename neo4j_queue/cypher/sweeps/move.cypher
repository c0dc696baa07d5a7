// Notes how far a sweep has come. `after` null: it has come to its end.
// parameters: scope, token, after, seen, fresh, queued, standing, now
// rows:       one when the turn is still ours: scope
// locks:      the sweep
MATCH (s:EmbedSweep {scope: $scope})
SET s._lock = true
WITH s WHERE s.token = $token
SET s.after = $after, s.seen = $seen, s.fresh = $fresh, s.queued = $queued, s.standing = $standing,
  s.moved_at = CASE WHEN $after IS NOT NULL THEN coalesce($now, datetime.realtime().epochMillis) END,
  s.token = CASE WHEN $after IS NOT NULL THEN s.token END
RETURN s.scope AS scope
