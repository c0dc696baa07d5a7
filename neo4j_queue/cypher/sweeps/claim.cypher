// Takes the next turn of a sweep: the one that follows the turn with this token, or the first of a new sweep unless
// one of this scope is under way. The token changes with every turn, so a message that comes twice gets nothing.
// A sweep that was begun under other settings walked over other entities: it is not under way, and its turn begins anew.
// parameters: scope, token (null = begin anew), next (the token of this turn), silent_ms (a sweep that has not moved
//             for so long is not under way any more), made_for (fingerprint of the caller's settings), now
// rows:       one when the turn was granted: after, counts {seen, fresh, queued, standing, missing, deleted, refused,
//             oldest_stale_at (epoch ms, or null)}, marks, marked_for (as of sweeps/marks)
// locks:      control (there must not be two nodes of one scope), then the sweep
MATCH (c:QueueControl {name: 'embedding'})
SET c._lock = true
WITH coalesce($now, datetime.realtime().epochMillis) AS now
MERGE (s:EmbedSweep {scope: $scope})
SET s._lock = true
WITH s, now, coalesce(s.made_for <> $made_for, true) AS foreign
WHERE CASE WHEN $token IS NULL THEN foreign OR coalesce(s.moved_at + $silent_ms < now, true) ELSE s.token = $token END
SET s.token = $next, s.moved_at = now
FOREACH (_ IN CASE WHEN $token IS NULL OR foreign THEN [1] ELSE [] END |
  SET s.began_at = now, s.made_for = $made_for
  REMOVE s.after, s.seen, s.fresh, s.queued, s.standing, s.missing, s.deleted, s.refused, s.oldest_stale_at)
RETURN s.after AS after, {
  seen: coalesce(s.seen, 0), fresh: coalesce(s.fresh, 0), queued: coalesce(s.queued, 0),
  standing: coalesce(s.standing, 0), missing: coalesce(s.missing, 0), deleted: coalesce(s.deleted, 0),
  refused: coalesce(s.refused, 0), oldest_stale_at: s.oldest_stale_at
} AS counts, s.marks AS marks, s.marked_for AS marked_for
