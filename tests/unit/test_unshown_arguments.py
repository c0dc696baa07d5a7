"""Who may look at Flower does not learn from a repair's arguments which entity a person had in mind."""

from typing import Any

import pytest

from tasks import routes
from tasks.app import app


def shown(name: str, *args: Any, **kwargs: Any) -> str:
    """What events and Flower are told of the arguments of a message."""
    message = app.amqp.as_task_v2("an-id", name, args, kwargs, create_sent_event=True)
    # The arguments themselves do arrive.
    assert message.body[:2] == (args, kwargs)
    return f"{message.headers['argsrepr']} {message.headers['kwargsrepr']} {message.sent_event}"


@pytest.mark.parametrize("by_keyword", [False, True])
def test_the_entity_of_a_repair_is_not_shown(by_keyword: bool) -> None:
    """Seen failing without `PromptAMQP.as_task_v2`."""
    name = "Ada Lovelace"
    told = (
        shown(routes.FORCE_GENERATE, entity_name=name) if by_keyword else shown(routes.FORCE_GENERATE, name)
    )
    assert "Ada" not in told


def test_other_arguments_are_shown() -> None:
    assert "'a-job'" in shown("tasks.repair.release", ["a-job"])
