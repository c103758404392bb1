"""Modules, functions and classes stay small enough to read in one sitting."""

from __future__ import annotations

from tests.tidy.measure import RATCHET, Measured, judge, measure, measure_all, read_ratchet, render_ratchet


def test_nothing_outgrows_its_limit() -> None:
    ratchet = read_ratchet(RATCHET.read_text())
    verdicts = [verdict for one in measure_all() if (verdict := judge(one, ratchet))]
    assert not verdicts, "\n" + "\n".join(verdicts)


def test_the_ratchet_lists_only_things_that_exist() -> None:
    existing = {(one.kind, one.name) for one in measure_all()}
    gone = [f"{kind} {name}" for kind, name in read_ratchet(RATCHET.read_text()) if (kind, name) not in existing]
    assert not gone, f"strike them off ratchet.toml (python -m tests.tidy.measure --shrink): {gone}"


def test_the_ratchet_file_is_as_the_tool_writes_it() -> None:
    text = RATCHET.read_text()
    assert render_ratchet(read_ratchet(text)) == text


def test_a_listed_offender_may_shrink_but_not_grow() -> None:
    ratchet = {("function", "m.f"): 50}
    assert judge(Measured("function", "m.f", 50), ratchet) is None
    assert "may only shrink" in str(judge(Measured("function", "m.f", 51), ratchet))
    assert "smaller size" in str(judge(Measured("function", "m.f", 49), ratchet))
    assert "strike it off" in str(judge(Measured("function", "m.f", 40), ratchet))


def test_no_listing_helps_above_the_hard_limit() -> None:
    assert "never allowed" in str(judge(Measured("function", "m.f", 71), {("function", "m.f"): 71}))


def test_docstrings_and_decorators_do_not_count_as_function_lines() -> None:
    text = (
        "class A:\n    @property\n    def f(self):\n"
        '        """One.\n\n        Two.\n        """\n        return 1\n\n'
        "    def g(self):\n        pass\n"
    )
    sizes = {one.name: one.size for one in measure(text, "m")}
    assert sizes == {"m": 11, "m.A": 1, "m.A.f": 2, "m.A.g": 2}
