"""The Tab key: what fits where the cursor is, and scripts that shells accept."""

from __future__ import annotations

import subprocess

import pytest

from tidelog.cli.candidates import Wanted, place_of, words_of
from tidelog.cli.completion import SCRIPTS
from tidelog.cli.main import COMMANDS, main, parser_for


def fitting(line: str) -> list[str]:
    words = words_of(line)
    return [candidate.word for candidate in place_of(parser_for(words), words).fitting]


def wanted(line: str) -> Wanted | None:
    words = words_of(line)
    return place_of(parser_for(words), words).wanted


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("tidelog", [""]),
        ("tidelog ", [""]),
        ("tidelog to", ["to"]),
        ("tidelog topics ", ["topics", ""]),
        ("tidelog produce -t 'a b", ["produce", "-t", "'a", "b"]),
    ],
)
def test_the_last_word_is_the_unfinished_one(line: str, words: list[str]) -> None:
    assert words_of(line) == words


def test_commands_verbs_options_and_choices_are_found() -> None:
    assert fitting("tidelog ") == [command.name for command in COMMANDS]
    assert {"delete", "describe"} <= set(fitting("tidelog topics de"))
    assert fitting("tidelog topics create orders --part") == ["--partitions"]
    assert fitting("tidelog topics list --format ") == ["table", "json"]
    assert fitting("tidelog produce -z z") == ["zstd"]


def test_an_options_value_is_not_taken_for_a_verb() -> None:
    assert fitting("tidelog topics describe --bootstrap-server list --for") == ["--format"]


def test_what_is_hidden_from_help_is_not_offered() -> None:
    assert "--line" not in fitting("tidelog completion bash --")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("tidelog log dump ", Wanted.FILE),
        ("tidelog up --data ", Wanted.FILE),
        ("tidelog consume -t ", Wanted.TOPIC),
        ("tidelog topics delete a ", Wanted.TOPIC),
        ("tidelog groups reset billing --topic ", Wanted.TOPIC),
        ("tidelog groups describe ", Wanted.GROUP),
        ("tidelog consume -t orders -g ", Wanted.GROUP),
        ("tidelog transactions describe --transactional-id ", Wanted.TRANSACTIONAL_ID),
        ("tidelog transactions abort --transactional-id ", Wanted.TRANSACTIONAL_ID),
        ("tidelog transactions find-hanging --topic ", Wanted.TOPIC),
        ("tidelog up -X num", Wanted.PROPERTY),
        ("tidelog topics create x --config ", Wanted.TOPIC_SETTING),
    ],
)
def test_files_topics_and_settings_are_asked_for(line: str, what: Wanted) -> None:
    assert wanted(line) is what


@pytest.mark.parametrize(
    ("shell", "line", "said"),
    [
        ("bash", "tidelog up -X num.par", "num.partitions=\n"),
        ("fish", "tidelog up -X num.par", "num.partitions=\tPartitions of a topic that does not say.\n"),
        ("zsh", "tidelog up -X num.par", "num.partitions=:Partitions of a topic that does not say.\n"),
        ("bash", "tidelog log dump x", ":files\n"),
        ("bash", "tidelog topics create t -c flush.m", "flush.messages=\nflush.ms=\n"),
    ],
)
def test_the_answer_is_in_the_shells_words(
    shell: str, line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell, "--line", line]) == 0
    assert capsys.readouterr().out == said


def test_nobody_to_ask_for_topics_is_no_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELOG_BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.setattr("tidelog.cli.completion.ANSWER_WITHIN_MS", 50)
    assert main(["completion", "bash", "--line", "tidelog consume -t "]) == 0
    assert capsys.readouterr() == ("", "")


def test_bash_accepts_its_script() -> None:
    subprocess.run(["bash", "-n"], input=SCRIPTS["bash"], text=True, check=True)
