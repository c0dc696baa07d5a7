// Stores what is known of the provider.
// parameters: trouble (null = none), rounds (rests in a row because of it), failures (in a row)
// rows:       none
// locks:      control (held by the caller)
MATCH (c:QueueControl {name: 'embedding'})
SET c.trouble = $trouble, c.trouble_rounds = $rounds, c.provider_failures = $failures
