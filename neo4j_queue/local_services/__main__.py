"""`python -m neo4j_queue.local_services`: checks that the programs are here that local services need.

On a Debian-like system it installs what is missing when it runs as root; elsewhere it names what is missing and
how to get it (exit code 75).
"""

import sys

from neo4j_queue.local_services.failures import MissingTools
from neo4j_queue.local_services.requirements import ensure_tools


def main() -> int:
    """Prints news while it installs; returns the exit code."""
    try:
        ensure_tools(lambda news: print(f"{news.step}: {news.message}", flush=True))
    except MissingTools as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
