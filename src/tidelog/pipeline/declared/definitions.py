"""Reading definition files, as Spark's own runner does: each is a module with `spark` in it, and whatever it declares goes to a registry."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, chdir, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.pipeline.declared.recorder import DefinitionRefused
from tidelog.pipeline.declared.spec import Spec
from tidelog.pipeline.declared.sql_statements import StatementRefused
from tidelog.pipeline.declared.troubles import definition_failure

if TYPE_CHECKING:
    from pyspark.pipelines.graph_element_registry import GraphElementRegistry
    from pyspark.sql import SparkSession

_READS_ONE: Final = re.compile(r"\b(spark|read|readStream)\s*\.\s*table\b")  # perhaps a view
_MENTIONS_TABLES: Final = re.compile(
    r"\b(table|materialized_view|create_streaming_table|TABLE|MATERIALIZED|saveAsTable)\b"
)


class DefinitionFailed(Exception):
    """A definition file cannot be used; the message has the file and the line."""


def mentions_tables(files: Iterable[Path]) -> bool:
    """Whether tables may be declared, which need a catalog that outlives the run. A yes too many costs some seconds, a no is certain."""
    texts = (_READS_ONE.sub("", file.read_text(encoding="utf-8", errors="replace")) for file in files)
    return any(_MENTIONS_TABLES.search(text) for text in texts)


def load(
    spec: Spec,
    files: Iterable[Path],
    registry: GraphElementRegistry,
    spark: SparkSession,
    analysis: Callable[[], AbstractContextManager[None]],
) -> None:
    """Let every file declare what it has to. Raises DefinitionFailed."""
    from pyspark.pipelines.graph_element_registry import graph_element_registration_context

    with chdir(spec.directory), graph_element_registration_context(registry):
        for file in files:
            with _told_by_file(file, spec.directory):
                _load_one(file, registry, spark, analysis, root=spec.directory)


def _load_one(
    file: Path,
    registry: GraphElementRegistry,
    spark: SparkSession,
    analysis: Callable[[], AbstractContextManager[None]],
    *,
    root: Path,
) -> None:
    from pyspark.pipelines.block_session_mutations import block_session_mutations

    if file.suffix == ".sql":
        registry.register_sql(file.read_text(encoding="utf-8"), _relative(file, root))
        return
    found = importlib.util.spec_from_file_location(file.stem, file)
    if found is None or found.loader is None:
        raise DefinitionFailed(f"{file}: Python cannot load this file")
    module = importlib.util.module_from_spec(found)
    vars(module)["spark"] = spark
    with analysis(), block_session_mutations():
        found.loader.exec_module(module)


@contextmanager
def _told_by_file(file: Path, root: Path) -> Iterator[None]:
    """Whatever a definition file raises is for whoever wrote it, with the line."""
    try:
        yield
    except (DefinitionFailed, DefinitionRefused, StatementRefused) as refused:
        raise DefinitionFailed(str(refused).replace(f"{root}/", "")) from None
    except Exception as error:  # anything at all can be raised by code that somebody else wrote
        told = definition_failure(error, root)
        name = str(_relative(file, root))
        raise DefinitionFailed(told if name in told else f"{name}: {told}") from error


def _relative(file: Path, root: Path) -> Path:
    return file.relative_to(root) if file.is_relative_to(root) else file
