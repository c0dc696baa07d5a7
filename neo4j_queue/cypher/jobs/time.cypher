// The server's time.
// parameters: now
// rows:       one: now (epoch ms)
// locks:      none
RETURN coalesce($now, datetime.realtime().epochMillis) AS now
