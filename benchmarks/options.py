"""What a run of the benchmarks is asked for."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Options:
    """`jobs` for a drain, `rounds` in turn, `quick` for a smoke test (its figures mean nothing), `only` some parts."""

    jobs: int = 20_000
    rounds: int = 3
    quick: bool = False
    only: frozenset[str] = field(default_factory=frozenset)

    def wants(self, part: str, *, default: bool = True) -> bool:
        """True if a part is to be measured; `default` where no part is named."""
        return part in self.only if self.only else default

    def shown(self) -> dict[str, Any]:
        """For the result."""
        return {**asdict(self), "only": sorted(self.only)}
