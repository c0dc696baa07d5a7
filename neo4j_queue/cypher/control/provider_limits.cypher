// The last that the provider's answers said about the account, however old.
// parameters: none
// rows:       one: requests, tokens (per minute; null = not said), token_factor, at (epoch ms; null = never)
// locks:      none
MATCH (c:QueueControl {name: 'embedding'})
RETURN c.found_requests AS requests, c.found_tokens AS tokens, coalesce(c.token_factor, 1.0) AS token_factor,
  c.found_at AS at
