"""What a million model tokens cost, and what a lease notes of it. A price that is not known is not invented."""

from dataclasses import dataclass

from neo4j_queue.embedders import describe, profile_of
from neo4j_queue.errors import SettingsError
from neo4j_queue.providers import MODELS
from neo4j_queue.settings import Settings

MILLION = 1_000_000

LISTED = "OpenAI's list price of 2026"
SET = "EMBEDDING_PRICE_PER_MILLION_TOKENS"
HERE = "made on this machine"


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million model tokens, and where the figure comes from."""

    per_million: float
    source: str

    def of(self, tokens: int) -> float:
        """US dollars for so many model tokens."""
        return tokens * self.per_million / MILLION


def price_of(settings: Settings) -> Price | None:
    """The price of the configured model: the operator's, else the list price of its name; None = not known.

    A gateway or another provider may ask something else for a model of the same name: set it then.
    """
    if settings.embedding_price_per_million_tokens is not None:
        return Price(settings.embedding_price_per_million_tokens, SET)
    if describe(settings).provider != "openai":
        return Price(0.0, HERE)
    model = MODELS.get(settings.openai_embedding_model)
    return None if model is None else Price(model.price, LISTED)


def tariff_of(settings: Settings) -> dict[str, object]:
    """What a lease notes when its work begins: `provider`, `model`, and `price` (US dollars per million tokens).

    None = not known, as for a model whose width cannot be known. What is noted stays when settings or lists change.
    """
    try:
        spec, price = describe(settings), price_of(settings)
    except SettingsError:
        return {"provider": None, "model": None, "price": None}
    per_million = None if price is None else price.per_million
    return {"provider": profile_of(settings).name, "model": spec.model, "price": per_million}
