"""What is served over HTTP: health, metrics, and how any server of ours listens."""
