// Which silent workers are to be named in the log: once when the silence begins, then each time it has doubled.
// parameters: names, now
// rows:       name, silent_ms
// locks:      worker nodes in the order of their names
MATCH (w:EmbedWorker) WHERE w.name IN $names
WITH w ORDER BY w.name
SET w._lock = true
WITH w, coalesce($now, datetime.realtime().epochMillis) - w.seen_at AS silent_ms
// What was told of an earlier silence says nothing of this one.
WHERE coalesce(w.told_since <> w.seen_at, true) OR silent_ms >= 2 * w.told_ms
SET w.told_since = w.seen_at, w.told_ms = silent_ms
RETURN w.name AS name, silent_ms
