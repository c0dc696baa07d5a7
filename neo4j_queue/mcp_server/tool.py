"""A tool: its name and words, the models of its arguments and its answer, and what it does."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mcp import types
from pydantic import BaseModel

from neo4j_queue.mcp_server.backend import Backend
from neo4j_queue.mcp_server.calls import Call

Act = Callable[[Backend, Any, Call], BaseModel | dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Tool:
    """`act` runs on a thread of its own; it may block, and may raise anything.

    writes: it changes the graph or the queue. destructive: it deletes what cannot be had back. Every tool here may be
    called twice with the same arguments and does nothing more the second time.
    """

    name: str
    title: str
    description: str
    arguments: type[BaseModel]
    answer: type[BaseModel]
    act: Act
    writes: bool = False
    destructive: bool = False

    def listing(self) -> types.Tool:
        """The tool as clients see it."""
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=self.arguments.model_json_schema(by_alias=True),
            output_schema=self.answer.model_json_schema(by_alias=True, mode="serialization"),
            annotations=types.ToolAnnotations(
                title=self.title,
                read_only_hint=not self.writes,
                destructive_hint=self.destructive,
                idempotent_hint=True,
                # One graph and its queue.
                open_world_hint=False,
            ),
        )
