// The server's clock, in ms of the epoch.
// parameters: none
// rows:       one: now
// locks:      none
RETURN datetime.realtime().epochMillis AS now
