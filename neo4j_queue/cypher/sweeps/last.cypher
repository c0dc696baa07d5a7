// What the last sweep of a scope that came to its end has counted.
// parameters: scope
// rows:       at most one: ended_at, seen, fresh, missing, failed (null: it did not count them), oldest_stale_at (epoch ms;
//             null: nothing was stale, or it did not look), made_for (fingerprint of its settings; null: not known)
// locks:      none
MATCH (s:EmbedSweep {scope: $scope}) WHERE s.ended_at IS NOT NULL
RETURN s.ended_at AS ended_at, s.last_seen AS seen, s.last_fresh AS fresh, s.last_missing AS missing,
  s.last_failed AS failed, s.last_oldest_stale_at AS oldest_stale_at, s.last_made_for AS made_for
