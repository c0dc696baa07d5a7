"""The page for people: what the queue does and why, and what a person may do about it."""
