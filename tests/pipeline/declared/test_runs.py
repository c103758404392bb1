"""Real runs of declared pipelines, triggered and always on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.waiting import eventually
from tests.pipeline.declared.rig import PATIENCE_S, Pipeline
from tests.pipeline.hand import Hand
from tidelog.pipeline.declared import state

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.proof, pytest.mark.timeout(2 * PATIENCE_S)]


@pytest.fixture
def pipeline(hand: Hand, tmp_path: Path) -> Pipeline:
    return Pipeline(hand, tmp_path)


def test_a_changed_definition_goes_on_with_what_stayed_and_an_always_on_run_goes_on_from_there(
    pipeline: Pipeline,
) -> None:
    pipeline.add_numbers(50)
    pipeline.declare("stays", "leaves")
    pipeline.run()
    assert pipeline.rows() == {"stays": 50, "leaves": 50}
    pipeline.add_numbers(30)
    pipeline.declare("stays", "comes")
    with pipeline.start("--continuous") as process:
        eventually(
            lambda: pipeline.is_exactly_once("stays") and pipeline.is_exactly_once("comes"),
            "both flows have written all numbers, each once",
            timeout_s=PATIENCE_S,
        )
        refused = pipeline.run(exit_code=1)
        said = pipeline.tell("stop")
        process.process.wait(PATIENCE_S)
        assert process.process.returncode == 0, process.output
    assert f"is being run already (process {process.pid}, continuous)" in refused
    assert "stopped: " in said
    assert pipeline.view().state == state.STOPPED
    assert pipeline.rows() == {"stays": 30, "comes": 80}
    assert sum(pipeline.counts("leaves").values()) == 50
