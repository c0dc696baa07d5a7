"""What makes the queue agree with the graph: sweeps, repairs, and what they will cost. It knows both."""
