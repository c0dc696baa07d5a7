// Leases whose jobs were taken back have no text in hand any more, whatever their holders do: twins need not wait.
// parameters: tokens
// rows:       none
// locks:      leases in the order given
UNWIND $tokens AS token
MATCH (l:EmbedLease {token: token})
REMOVE l.texts
