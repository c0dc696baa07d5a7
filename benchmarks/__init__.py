"""Benchmarks on real services: `python -m benchmarks [queue] [drain] [latency]`, all of them by default.

Each starts two Neo4j servers and Redis of its own, prints its tables, writes `benchmarks/results/<name>.json`, and
measures the baseline that it names in the same run, in turn with what is compared to it: on a shared machine only
such ratios mean something. How to read the figures: docs/reference/benchmarks.md.
"""
