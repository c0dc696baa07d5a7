// Takes a label by which jobs are counted from those that are in another state.
// parameters: label, status (of the jobs that carry it rightly)
// rows:       one: mended
// locks:      jobs with a wrong label; transactions of its own, for the look at all jobs takes long
MATCH (j:$($label)) WHERE j.status <> $status
CALL (j) {
  SET j._lock = true
  WITH j WHERE j.status <> $status
  REMOVE j:$($label)
} IN TRANSACTIONS OF 1000 ROWS
RETURN count(j) AS mended
