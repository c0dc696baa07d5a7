"""Variables that look like settings and are none: a typing error would otherwise leave a default in force, silently."""

import difflib
import os
from collections.abc import Mapping

from dotenv import dotenv_values

from neo4j_queue.settings import env_file
from neo4j_queue.settings.secret_files import SUFFIX
from neo4j_queue.settings.settings import ENV_FILE, Settings

# No other program's variables begin like this: each one is meant for us.
OURS = ("EMBED_", "EMBEDDING_")
# Close enough to the settings that begin with those, whatever the name begins with: `EMBEDING_PROVIDER`, `MBED_LANE`.
MISSPELT = 0.9
# In a file of settings these are meant for us too; in the environment many programs have such.
OURS_IN_FILE = (*OURS, "NEO4J_")
# Others use these prefixes as well: only what is nearly a setting of ours is worth a word.
SHARED = ("NEO4J_", "OPENAI_", "MOCK_", "CELERY_BROKER", "HEALTH_", "LOG_")
NEARLY = 0.85
# Below this, what difflib finds shares little but the prefix.
SIMILAR = 0.75
# Variables of compose.yaml, of the local services and of Neo4j's own container, which read the same file.
ELSEWHERE = frozenset(
    {"NEO4J_AUTH", "NEO4J_PLUGINS", "NEO4J_ACCEPT_LICENSE_AGREEMENT", "NEO4J_HOME", "NEO4J_CONF"}
)
ELSEWHERE_PREFIX = "NEO4J_QUEUE_"


def suspicious_names(
    environment: Mapping[str, str] | None = None, file: Mapping[str, str | None] | None = None
) -> list[str]:
    """One line for each variable that is no setting but seems to be meant as one, with the nearest name.

    Looks at `environment` and at the variables of `.env` (`file`); without arguments at those of this process.
    """
    if environment is None and file is None:
        environment, file = os.environ, _env_file()
    known = [name.upper() for name in Settings.model_fields] + ["REDIS_URL"]
    known += [f"{name.upper()}{SUFFIX}" for name in Settings.names_in_files()]
    ours_known = [name for name in known if name.startswith(OURS)]
    lines = []
    for names, ours, where in ((file or {}, OURS_IN_FILE, " (in .env)"), (environment or {}, OURS, "")):
        for name in sorted(names):
            upper = name.upper()
            if upper in known or upper in ELSEWHERE or upper.startswith(ELSEWHERE_PREFIX):
                continue
            # The container of Neo4j takes its own settings as NEO4J_server_memory_heap_max__size.
            meant = upper.startswith(ours) and not (name.startswith("NEO4J_") and name != upper)
            if not meant and not upper.startswith(SHARED):
                near = difflib.get_close_matches(upper, ours_known, n=1, cutoff=MISSPELT)
                lines += [f"{name}{where} is not a setting; did you mean {near[0]}?" for _ in near]
                continue
            # The beginning of a longer name is more likely that one than its neighbours in spelling.
            longer = sorted((each for each in known if meant and each.startswith(upper)), key=len)
            near = longer or difflib.get_close_matches(upper, known, n=1, cutoff=SIMILAR if meant else NEARLY)
            if near:
                lines.append(f"{name}{where} is not a setting; did you mean {near[0]}?")
            elif meant:
                lines.append(f"{name}{where} is not a setting; docs/reference/settings.md names them all")
    return lines


def _env_file() -> dict[str, str | None]:
    # What cannot be read is reported where the settings themselves are.
    if not ENV_FILE.is_file() or env_file.trouble(ENV_FILE):
        return {}
    return dotenv_values(ENV_FILE, interpolate=False)
