// Runs the two statements of a clean-up in batches of their own transactions. Called alone, in a transaction that
// has written nothing: it would wait for ever for a lock that its caller holds. It swallows the batches' errors;
// the row says them.
// parameters: outer, inner (statements), params, batch_size
// rows:       one: batches, total, committed, failed_batches, failed, errors {message: count}, terminated
// locks:      none of its own
CALL apoc.periodic.iterate($outer, $inner,
  {batchSize: $batch_size, batchMode: 'BATCH_SINGLE', parallel: false, retries: 2, params: $params})
YIELD batches, total, committedOperations, failedBatches, failedOperations, errorMessages, wasTerminated
RETURN batches, total, committedOperations AS committed, failedBatches AS failed_batches,
  failedOperations AS failed, errorMessages AS errors, wasTerminated AS terminated
