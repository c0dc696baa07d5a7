"""What the server asks of the form of a request: the key, and the fields of its body."""

from dataclasses import dataclass

from neo4j_queue.mock_provider.journal import Request
from neo4j_queue.mock_provider.replies import Reply, error


@dataclass(frozen=True, slots=True)
class Rules:
    """A request with another key than `key`, with a refused field or without a needed one is refused.

    The words are those of Voyage, Gemini behind LiteLLM and NVIDIA NIM.
    """

    key: str | None = None
    refused_fields: frozenset[str] = frozenset()
    needed_fields: frozenset[str] = frozenset()

    def refusal(self, request: Request) -> Reply | None:
        """The refusal of a request; None if its form is right."""
        if self.key is not None and self.key not in _keys(request):
            return error(
                401, message="Incorrect API key provided", type="authentication_error", code="invalid_api_key"
            )
        for name in sorted(self.refused_fields & request.fields.keys()):
            return error(400, {"detail": f"Argument '{name}' is not supported by our API"})
        for name in sorted(self.needed_fields - request.fields.keys()):
            return error(400, {"error": f"'{name}' parameter is required for asymmetric models"})
        return None


def _keys(request: Request) -> tuple[str, ...]:
    bearer = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
    return (bearer, request.headers.get("api-key", ""))
