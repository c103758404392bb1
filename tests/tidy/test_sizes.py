"""Modules, functions and classes stay smaller than what is never right."""

from __future__ import annotations

from tests.tidy.measure import Measured, measure, measure_all, too_large


def sizes(**modules: str) -> dict[str, int]:
    return {one.name: one.size for one in measure({f"m.{name}": text for name, text in modules.items()})}


def test_nothing_is_larger_than_is_ever_right() -> None:
    found = too_large(measure_all())
    assert not found, "\n" + "\n".join(found)


def test_what_is_never_right_is_told_with_its_size() -> None:
    assert too_large([Measured("function", "m.f", 70)]) == []
    assert too_large([Measured("function", "m.f", 71)]) == ["function m.f has 71 lines; more than 70 is never right"]


def test_docstrings_and_decorators_do_not_count_as_function_lines() -> None:
    text = (
        "class A:\n    @property\n    def f(self):\n"
        '        """One.\n\n        Two.\n        """\n        return 1\n\n'
        "    def g(self):\n        pass\n"
    )
    assert sizes(n=text) == {"m.n": 11, "m.n.A": 1, "m.n.A.f": 2, "m.n.A.g": 2}


def test_methods_that_are_inherited_count_wherever_the_base_is_written() -> None:
    base = "class Base:\n    def a(self): ...\n    def b(self): ...\n"
    heir = "from m.base import Base as Ours\nclass Heir(Ours, dict):\n    def b(self): ...\n    def c(self): ...\n"
    found = sizes(base=base, heir=heir, other="from m import Heir\nclass Other(Heir):\n    def d(self): ...\n")
    assert (found["m.base.Base"], found["m.heir.Heir"], found["m.other.Other"]) == (2, 3, 4)


def test_a_protocol_is_what_others_promise_and_has_no_size_of_its_own() -> None:
    text = "class P(Protocol):\n    def a(self): ...\nclass C(P):\n    def a(self): ...\n"
    found = sizes(n=text)
    assert "m.n.P" not in found
    assert found["m.n.C"] == 1
