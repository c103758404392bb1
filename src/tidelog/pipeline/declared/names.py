"""What Spark calls flows and tables, and what their authors call them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidelog.pipeline.declared.spec import Spec

if TYPE_CHECKING:
    from tidelog.pipeline.declared.recorder import DeclaredFlow

_CATALOG: Final = "spark_catalog"
_DATABASE: Final = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The names of one pipeline."""

    catalog: str
    database: str | None  # None for Spark's own

    @classmethod
    def of(cls, spec: Spec) -> Names:
        """As the spec says, or as Spark does."""
        return cls(catalog=spec.catalog or _CATALOG, database=spec.database)

    def short(self, name: str) -> str:
        """Without catalog and database where these are the pipeline's own."""
        return name.replace("`", "").removeprefix(f"{self.catalog}.").removeprefix(f"{self.database or _DATABASE}.")

    def of_table(self, name: str) -> tuple[str, ...]:
        """The parts of the whole name of a table, as Spark's runner puts them together: catalog, database, table."""
        parts = tuple(name.split("."))
        return (*(self.catalog, self.database or _DATABASE)[: max(0, 3 - len(parts))], *parts)

    def query(self, flow: DeclaredFlow, *, is_to_sink: bool) -> str:
        """What a triggered run calls the query of a flow; its group of offsets is called so, too."""
        return flow.name if is_to_sink else ".".join(self.of_table(flow.name))
