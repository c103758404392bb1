"""What a session lives through, and what it does not: members killed, stopped and cut off, on a real ensemble of three."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import pytest

from tests.compatibility.processes import RunningProcess
from tests.registry.zookeeper.opened import Bell, insist, new_chroot, run, until_unavailable
from tests.registry.zookeeper.opened import opened as opened_for
from tests.tcp_link import TcpLink
from tests.zookeeper_ensemble import ZooKeeperEnsemble, end_session_as_another, wait_until
from tidelog.registry import Create, RegistryUnavailable, SessionExpired, Set

pytestmark = pytest.mark.timed
SESSION_TIMEOUT_MS: Final = 3_000
opened = functools.partial(opened_for, session_timeout_ms=SESSION_TIMEOUT_MS)


@pytest.fixture
def connect(ensemble: ZooKeeperEnsemble) -> str:
    return ensemble.connect_string + new_chroot()


@pytest.fixture
def links(ensemble: ZooKeeperEnsemble) -> Iterator[list[TcpLink]]:
    """A link to each member."""
    with ExitStack() as stack:
        yield [stack.enter_context(TcpLink(int(address.rpartition(":")[2]))) for address in ensemble.addresses]


def connect_over(links: list[TcpLink]) -> str:
    return ",".join(link.address for link in links) + new_chroot()


def used(links: list[TcpLink]) -> TcpLink:
    """The link over which the only client is connected."""
    wait_until(lambda: sum(link.is_used for link in links) == 1, "one link in use")
    return next(link for link in links if link.is_used)


def test_session_outlives_every_member_in_turn(ensemble: ZooKeeperEnsemble, connect: str) -> None:
    async def story() -> None:
        async with opened(connect) as registry:
            session_id = registry.session_id
            await registry.create("/mine", b"0", ephemeral=True)
            for member in range(3):
                ensemble.kill(member)
                await insist(lambda: registry.set("/mine", b"x"))
                ensemble.restart(member)
            node = await insist(lambda: registry.get("/mine"))
            assert (node.owner, registry.session_id) == (session_id, session_id)

    run(story())


def test_writes_go_on_after_the_leader_is_killed(ensemble: ZooKeeperEnsemble, connect: str) -> None:
    async def story() -> None:
        async with opened(connect) as registry:
            before = await insist(lambda: registry.multi([Create("/a")]))
            ensemble.kill(ensemble.leader())
            after = await insist(lambda: registry.multi([Create("/b")]))
            assert before[0].node is not None
            assert after[0].node is not None
            assert after[0].node.czxid > before[0].node.czxid

    run(story())


def test_stopped_leader_does_not_hold_up_writes_for_ever(ensemble: ZooKeeperEnsemble, connect: str) -> None:
    async def story() -> None:
        async with opened(connect, session_timeout_ms=6_000) as registry:
            await registry.create("/a")
            session_id = registry.session_id
            ensemble.stop(ensemble.leader())
            await insist(lambda: registry.set("/a", b"x"))
            assert registry.session_id == session_id

    run(story())


def test_lost_quorum_is_told_within_a_bound_and_its_return_ends_nothing(
    ensemble: ZooKeeperEnsemble, connect: str
) -> None:
    async def story() -> None:
        async with opened(connect) as registry:
            session_id = registry.session_id
            await registry.create("/mine", ephemeral=True)
            ending = asyncio.ensure_future(registry.ended())
            ensemble.kill(0)
            ensemble.kill(1)
            async with asyncio.timeout(2 * SESSION_TIMEOUT_MS / 1000):
                with pytest.raises(RegistryUnavailable) as told:
                    await until_unavailable(registry)
            assert told.value.may_pass
            assert registry.session_id == session_id
            await asyncio.to_thread(ensemble.heal)
            assert (await insist(lambda: registry.get("/mine"))).owner == session_id
            assert not ending.done()
            ending.cancel()

    run(story())


def test_client_paused_beyond_its_session_has_lost_it(ensemble: ZooKeeperEnsemble, connect: str) -> None:
    async def story() -> None:
        gone = Bell()
        async with opened(connect) as registry:
            await registry.create("/epoch", b"0")
            await registry.watch("/mine", gone)
            command = [sys.executable, "-m", "tests.registry.zookeeper.paused_client", connect, "800"]
            with RunningProcess(command, has_input=True) as client:
                await asyncio.to_thread(client.wait_for, "ready")
                client.write_line("1")
                await asyncio.to_thread(client.wait_for, "written")
                os.kill(client.pid, signal.SIGSTOP)
                try:
                    while await registry.exists("/mine"):
                        await gone.wait()
                    await registry.set("/epoch", b"2")
                    client.write_line("3")
                finally:
                    os.kill(client.pid, signal.SIGCONT)
                await asyncio.to_thread(client.wait_for, "unavailable|expired|ended")
                assert (await registry.get("/epoch")).data == b"2"
                client.write_line("4")
                await asyncio.to_thread(client.wait_for, "expired")
                assert (await registry.get("/epoch")).data == b"2"
                client.write_line("")

    run(story())


def test_watch_goes_with_its_session_to_another_member_and_misses_nothing(links: list[TcpLink]) -> None:
    async def story() -> None:
        connect = connect_over(links)
        async with opened(connect) as registry:
            await registry.create("/a", b"0")
            for number in range(1, 4):
                bell = Bell()
                watch = await registry.watch("/a", bell)
                lost = used(links)
                lost.cut()
                async with opened(connect) as other:
                    await insist(lambda: other.set("/a", b"%d" % number))  # noqa: B023  # awaited before the next turn
                    await bell.wait()
                    assert (await insist(lambda: registry.get("/a"))).data == b"%d" % number
                    lost.mend()
                    await bell_after_settling(bell)
                    await other.create(f"/a/{number}")
                    await bell.wait()
                watch.cancel()

    async def bell_after_settling(bell: Bell) -> None:
        """Nothing but what comes later will ring it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                await bell.wait()

    run(story())


def test_member_behind_a_dead_link_does_not_cost_the_session(links: list[TcpLink]) -> None:
    async def story() -> None:
        async with opened(connect_over(links)) as registry:
            session_id = registry.session_id
            await registry.create("/mine", ephemeral=True)
            for _ in range(2):
                dead = used(links)
                dead.cut()
                assert (await insist(lambda: registry.get("/mine"))).owner == session_id
                assert used([link for link in links if link is not dead]).is_used
                dead.mend()

    run(story())


def test_lost_answer_of_a_write_is_told_as_unavailable_and_the_write_is_seen_later(links: list[TcpLink]) -> None:
    async def story() -> None:
        async with opened(connect_over(links)) as registry:
            await registry.create("/a", b"0")
            link = used(links)
            link.cut_answers()
            with pytest.raises(RegistryUnavailable) as told:
                await registry.set("/a", b"1", version=0)
            assert told.value.may_pass
            assert (await insist(lambda: registry.get("/a"))).version == 1
            link.mend()

    run(story())


def test_expiry_is_told_once_the_servers_can_be_reached_again(
    ensemble: ZooKeeperEnsemble, links: list[TcpLink]
) -> None:
    async def story() -> None:
        async with opened(connect_over(links)) as registry:
            await registry.create("/mine", ephemeral=True)
            assert registry.session is not None
            for link in links:
                link.cut()
            end_session_as_another(ensemble.connect_string, registry.session.client_id)
            with pytest.raises(RegistryUnavailable):
                await until_unavailable(registry)
            assert registry.session_id is not None
            for link in links:
                link.mend()
            await registry.ended()
            assert registry.session_id is None
            with pytest.raises(SessionExpired):
                await registry.set("/", b"")
            await registry.open_session()
            assert await registry.children("/") == []

    run(story())


def test_sequence_of_writes_through_faults_is_never_out_of_order(ensemble: ZooKeeperEnsemble, connect: str) -> None:
    """Each write demands the version the former one left; whoever was told "unavailable" reads before the next."""

    async def story() -> None:
        async with opened(connect, session_timeout_ms=6_000) as registry:
            await registry.create("/counter", b"0")
            version = 0
            for number in range(60):
                if number in {10, 40}:
                    ensemble.kill(ensemble.leader())
                if number == 25:
                    await asyncio.to_thread(ensemble.heal)
                try:
                    [outcome] = await registry.multi([Set("/counter", b"%d" % number, version)])
                    assert outcome.node is not None
                    assert outcome.node.version == version + 1
                except RegistryUnavailable:
                    assert (await insist(lambda: registry.get("/counter"))).version in {version, version + 1}
                version = (await insist(lambda: registry.get("/counter"))).version
            assert version >= 55

    run(story())


def test_member_that_lags_does_not_answer_with_the_past(ensemble: ZooKeeperEnsemble) -> None:
    async def story() -> None:
        chroot = new_chroot()
        leader = ensemble.leader()
        lagging = (leader + 1) % 3
        async with (
            opened(ensemble.addresses[leader] + chroot) as writer,
            opened(ensemble.addresses[lagging] + chroot) as reader,
        ):
            await writer.create("/a", b"0")
            ensemble.stop(lagging)
            try:
                # The member will be busy with these for a while; it must not be left behind for longer than syncLimit.
                # On a busy machine the leader may lose the others for a moment, and with them its connections: then a write is repeated.
                writes = [insist(lambda: writer.set("/a", bytes(20_000))) for _ in range(60)]
                version = max(await asyncio.gather(*writes))
                await writer.create("/b")
                reading = asyncio.ensure_future(insist(lambda: reader.get_many(["/a", "/b"])))
                await insist(lambda: writer.exists("/"))  # a round trip: the question is on its way
            finally:
                ensemble.cont(lagging)
            nodes = await reading
            assert [node and node.version for node in nodes] == [version, 0]

    run(story())


def test_ended_session_takes_its_nodes_along_at_once(ensemble: ZooKeeperEnsemble, connect: str) -> None:
    async def story() -> None:
        async with opened(connect, session_timeout_ms=30_000) as registry:
            async with opened(connect, session_timeout_ms=30_000) as leaving:
                await leaving.create("/mine", ephemeral=True)
            assert not await registry.exists("/mine")

    run(story())
    wait_until(lambda: ensemble.modes().count("follower") == 2, "two followers")
