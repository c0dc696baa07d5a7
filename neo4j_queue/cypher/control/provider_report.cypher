// Stores what the provider's answers say about the account.
// parameters: requests, tokens (per minute; null = not said), token_factor, now
// rows:       none
// locks:      control
MATCH (c:QueueControl {name: 'embedding'})
SET c.found_requests = $requests, c.found_tokens = $tokens, c.token_factor = $token_factor,
  c.found_at = coalesce($now, datetime.realtime().epochMillis)
