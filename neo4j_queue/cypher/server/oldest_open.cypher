// Since when the oldest transaction on a database is open, among those that this user may see, and the server's time.
// parameters: database
// rows:       one: since, now (epoch ms)
// locks:      none
SHOW TRANSACTIONS YIELD database, startTime
WHERE database = $database
// An aggregate too, else each row would be a group of its own time.
RETURN min(datetime(toString(startTime)).epochMillis) AS since, max(datetime.realtime().epochMillis) AS now
