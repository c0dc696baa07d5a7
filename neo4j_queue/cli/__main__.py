"""`python -m neo4j_queue.cli`: the command line where the console script is not installed."""

from neo4j_queue.cli import main

main()
