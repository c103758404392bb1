"""Log values come from strangers: they stay on their line, stay short, and read the same in every run."""

from __future__ import annotations

from tidelog.model import TopicPartition
from tidelog.runtime.logs import VALUE_LENGTH_MAX, render


def test_a_line_is_the_sentence_and_its_fields() -> None:
    line = render("leader elected", {"partition": TopicPartition("orders", 0), "leader_epoch": 3})
    assert line == "leader elected partition=orders-0 leader_epoch=3"


def test_terminal_escapes_and_line_breaks_are_shown_not_obeyed() -> None:
    assert render("closed", {"client_id": "\x1b[31mred\r\nfake line"}) == r'closed client_id="\x1b[31mred\r\nfake line"'


def test_a_control_character_without_blanks_is_escaped_too() -> None:
    assert render("closed", {"client_id": "a\x07b"}) == r'closed client_id="a\x07b"'


def test_ten_megabytes_of_client_id_are_cut() -> None:
    assert len(render("closed", {"client_id": "x" * 10_000_000})) < VALUE_LENGTH_MAX + 100


def test_a_set_reads_the_same_under_every_hash_seed() -> None:
    assert render("isr shrunk", {"isr": frozenset({"c", "a", "b"})}) == 'isr shrunk isr="{a, b, c}"'
