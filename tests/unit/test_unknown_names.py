"""Variables that look like settings and are none: each is named, with the setting that was meant."""

import pytest

from neo4j_queue.settings.unknown_names import suspicious_names


def test_a_misspelt_variable_is_noticed_and_a_foreign_one_is_not() -> None:
    names = {"EMBED_JOB_MAX_RETRIS": "3", "NEO4J_PLUGINS": "[]", "EMBED_BATCH_SIZE": "3", "HOME": "/"}
    (line,) = suspicious_names(names)
    assert "EMBED_JOB_MAX_RETRIES" in line


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("EMBED_TEXT_PROPERTY", "EMBED_TEXT_PROPERTY is not a setting; did you mean EMBED_TEXT_PROPERTIES?"),
        ("EMBEDDING_MODEL", "EMBEDDING_MODEL is not a setting; did you mean OPENAI_EMBEDDING_MODEL?"),
        ("EMBED_ZZZ", "EMBED_ZZZ is not a setting; docs/reference/settings.md names them all"),
        ("OPENAI_API_KYE", "OPENAI_API_KYE is not a setting; did you mean OPENAI_API_KEY?"),
        ("EMBEDING_PROVIDER", "EMBEDING_PROVIDER is not a setting; did you mean EMBEDDING_PROVIDER?"),
        ("EMBBED_BATCH_SIZE", "EMBBED_BATCH_SIZE is not a setting; did you mean EMBED_BATCH_SIZE?"),
        ("MBED_BATCH_SIZE", "MBED_BATCH_SIZE is not a setting; did you mean EMBED_BATCH_SIZE?"),
        (
            "EMEBD_JOB_MAX_RETRIES",
            "EMEBD_JOB_MAX_RETRIES is not a setting; did you mean EMBED_JOB_MAX_RETRIES?",
        ),
        ("BATCH_SIZE", None),
        ("OPENAI_ORGANIZATION", None),
        ("NEO4J_USER", "NEO4J_USER{} is not a setting; did you mean NEO4J_USERNAME?"),
        ("NEO4J_AUTH", None),
        ("NEO4J_QUEUE_GRAPH_PORT", None),
        ("NEO4J_server_memory_heap_max__size", None),
        ("embed_batch_size", None),
        ("PATH", None),
    ],
)
def test_a_name_that_is_no_setting_is_said_with_the_nearest(name: str, line: str | None) -> None:
    in_file = suspicious_names(file={name: "x"})
    assert in_file == ([] if line is None else [line.format("").replace(" is not", " (in .env) is not")])


def test_foreign_variables_of_the_environment_are_nobodys_business() -> None:
    assert suspicious_names({"NEO4J_EDITION": "community", "LOG_DIRECTORY": "x"}) == []
    assert suspicious_names(file={"NEO4J_EDITION": "community", "LOG_DIRECTORY": "x"}) == [
        "NEO4J_EDITION (in .env) is not a setting; docs/reference/settings.md names them all"
    ]
