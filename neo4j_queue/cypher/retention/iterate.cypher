// Runs the two statements of a clean-up in batches of their own transactions. Called alone, in a transaction that
// has written nothing: it would wait for ever for a lock that its caller holds. It swallows the batches' errors;
// the row says them. Its committed operations are rows that were looked at; what was removed, the statistics tell.
// parameters: outer, inner (statements), params, batch_size
// rows:       one: batches, total, removed, failed_batches, failed, errors {message: count}, terminated
// locks:      none of its own
CALL apoc.periodic.iterate($outer, $inner,
  {batchSize: $batch_size, batchMode: 'BATCH_SINGLE', parallel: false, retries: 2, params: $params})
YIELD batches, total, updateStatistics, failedBatches, failedOperations, errorMessages, wasTerminated
RETURN batches, total, updateStatistics.nodesDeleted AS removed, failedBatches AS failed_batches,
  failedOperations AS failed, errorMessages AS errors, wasTerminated AS terminated
