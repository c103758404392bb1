"""A broker is killed while drivers are in the middle of a commit, which waits, and goes on with those that are left."""

from __future__ import annotations

import pytest

from tests.compatibility.processes import TidelogCluster
from tests.pipeline.crash.crashing import POINTS
from tests.pipeline.crash.rig import Driver, Ground, Query, drawn_points
from tests.pipeline.crash.script import Act
from tests.pipeline.sink.looking import ask
from tidelog.client import Admin
from tidelog.model import BrokerId, ErrorCode
from tidelog.pipeline.sink.ledger import marker_group
from tidelog.simulation import SimulatedRandomness

pytestmark = [pytest.mark.spark, pytest.mark.proof, pytest.mark.timeout(600)]


@pytest.mark.parametrize(
    "role",
    [
        "leader of the output",
        "transaction coordinator",
        "group coordinator",
    ],
)
def test_a_broker_killed_during_commits_costs_nothing(
    ground: Ground, driver: Driver, cluster: TidelogCluster, chance: SimulatedRandomness, role: str
) -> None:
    """The process that commits is killed, too, as soon as it has decided: by itself the death of a broker doubles nothing in any mode."""
    queries = [ground.query(mode) for mode in POINTS]
    waits_at = {query: drawn_points(query.mode, chance)[0] for query in queries}
    for query, point in waits_at.items():
        query.script.plan(point, Act.WAIT, passes=1)
        query.script.plan(drawn_points(query.mode, chance)[1], Act.DIE, passes=1)
    driver.start(*queries)
    for query, point in waits_at.items():
        query.wait_at(point)
    broker_id = _broker_of(ground, queries[0], role)
    cluster.kill(broker_id)
    for query, point in waits_at.items():
        query.script.go_on(point)
    cluster.restart(broker_id)
    for query in queries:
        assert query.failure() is not None
    driver.finish(*queries)
    ground.assert_counts(*queries)


def _broker_of(ground: Ground, query: Query, role: str) -> BrokerId:
    if role == "leader of the output":
        return ground.hand.leader_of(query.sink)

    async def look(admin: Admin) -> BrokerId | ErrorCode:
        if role == "transaction coordinator":
            return (await admin.transactions.find_coordinators([query.sink_id]))[query.sink_id]
        group = marker_group(query.sink_id)
        return (await admin.groups.find_coordinators([group]))[group]

    found = ask(ground.hand.bootstrap, look)
    assert not isinstance(found, ErrorCode), found
    return found
