"""The spec of a pipeline: what is taken, and what is refused with which line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.pipeline.declared.spec import SpecRefused, definition_files, find_spec, parse_spec, read_spec

PLACE = Path("/pipelines/orders/spark-pipeline.yml")

WHOLE = """\
name: orders
storage: file:///var/lib/orders%20here
catalog: spark_catalog
schema: shop
configuration:
  spark.sql.shuffle.partitions: "2"
libraries:
  - glob: {include: transformations/**}
  - glob:
      include: more/one.sql
"""


def refusal(text: str) -> str:
    with pytest.raises(SpecRefused) as refused:
        parse_spec(text, PLACE)
    return str(refused.value).removeprefix(str(PLACE))


def test_all_that_a_spec_may_say_is_understood() -> None:
    spec = parse_spec(WHOLE, PLACE)
    assert (spec.name, spec.storage, spec.catalog, spec.database) == (
        "orders",
        Path("/var/lib/orders here"),
        "spark_catalog",
        "shop",
    )
    assert spec.configuration == {"spark.sql.shuffle.partitions": "2"}
    assert spec.libraries == ("transformations/**", "more/one.sql")
    assert spec.storage_uri == "file:///var/lib/orders%20here"


def test_a_storage_that_is_a_path_is_below_the_directory_of_the_spec() -> None:
    assert parse_spec("{name: a, storage: state}", PLACE).storage == Path("/pipelines/orders/state")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: [\nstorage: x", ", line 2: is not YAML: while parsing a flow sequence expected"),
        ("name: a\n\tstorage: b", ", line 2: is not YAML: "),
        ("just words", ": is no spec: it must have the keys name, storage and libraries"),
        ("", ": is no spec: "),
        ("name: a\nstorge: /x\n", ", line 2: unknown key 'storge'; did you mean storage?"),
        ("name: a\nstorage: /x\nflux: 1\n", ", line 3: unknown key 'flux'; there are name, storage, catalog"),
        ("name: a\nname: b\n", ", line 2: name is there twice"),
        ("storage: /x\n", ": name is missing"),
        ("name: a\n", ": storage is missing"),
        ("name: !!python/object/apply:os.getcwd []\nstorage: /x\n", ", line 1: name must be a text"),
        ("name: {a: b}\nstorage: /x\n", ", line 1: name must be a text"),
        (
            "name: a\nstorage: s3a://bucket/x\n",
            ", line 2: storage 's3a://bucket/x' is not in a file system that is mounted",
        ),
        ("name: a\nstorage: /x\ndatabase: b\nschema: c\n", ", line 4: schema is another word for database"),
        ("name: a\nstorage: /x\nconfiguration:\n  a: b\n  c: 2\n", ", line 5: configuration c: Spark takes texts only"),
        ("name: a\nstorage: /x\nconfiguration: 5\n", ", line 3: configuration must be settings of Spark by name"),
        ("name: a\nstorage: /x\nlibraries: x\n", ", line 3: libraries must be a list"),
        ("name: a\nstorage: /x\nlibraries:\n- file: x\n", ", line 4: libraries takes entries of the form {glob:"),
        (
            "name: a\nstorage: /x\nlibraries:\n- glob: {include: '**/*.py'}\n",
            ", line 4: libraries '**/*.py': accepted are",
        ),
    ],
)
def test_a_slip_is_named_with_its_line(text: str, said: str) -> None:
    assert refusal(text).startswith(said)


def made(tmp_path: Path, *files: str, libraries: str = "[{glob: {include: t/**}}]") -> Path:
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    spec = tmp_path / "spark-pipeline.yml"
    spec.write_text(f"{{name: a, storage: s, libraries: {libraries}}}")
    return spec


def test_definition_files_are_those_of_the_libraries_each_once(tmp_path: Path) -> None:
    libraries = "[{glob: {include: t/b.py}}, {glob: {include: t/**}}]"
    spec = made(tmp_path, "t/a.sql", "t/b.py", "t/deep/c.py", "t/__pycache__/b.pyc", "other.py", libraries=libraries)
    found = [str(file.relative_to(tmp_path)) for file in definition_files(read_spec(spec))]
    assert found == ["t/b.py", "t/a.sql", "t/deep/c.py"]


@pytest.mark.parametrize(
    ("files", "libraries", "said"),
    [
        ([], "[{glob: {include: t/**}}]", "libraries: there is no file at t/**"),
        (["t/a.py"], "[]", "has no libraries"),
        (["t/a.py", "t/notes.txt"], "[{glob: {include: t/**}}]", "definition files end with .py or .sql"),
        (["t/a.py"], "[{glob: {include: t/a.py}}, {glob: {include: gone.sql}}]", "there is no file at gone.sql"),
    ],
)
def test_libraries_without_files_and_files_of_another_kind_are_refused(
    tmp_path: Path, files: list[str], libraries: str, said: str
) -> None:
    with pytest.raises(SpecRefused, match=said.replace("*", r"\*")):
        definition_files(read_spec(made(tmp_path, *files, libraries=libraries)))


def test_a_spec_is_found_by_its_directory(tmp_path: Path) -> None:
    spec = made(tmp_path)
    assert find_spec(tmp_path) == find_spec(spec) == spec
    (tmp_path / "spark-pipeline.yaml").touch()
    with pytest.raises(SpecRefused, match="name the one that is meant"):
        find_spec(tmp_path)


def test_a_directory_without_a_spec_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(SpecRefused, match="tidelog pipeline init NAME"):
        find_spec(tmp_path)
    with pytest.raises(SpecRefused, match="there is no such file or directory"):
        find_spec(tmp_path / "nowhere")


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    spec = tmp_path / "spark-pipeline.yml"
    spec.write_bytes(b"name: \xff\xfe")
    with pytest.raises(SpecRefused, match=r"is not UTF-8 \(byte 6\)"):
        read_spec(spec)
