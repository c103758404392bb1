"""Nodes that are killed, cut, paused and parted; and that the same seed tells the same story byte for byte."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.simulation.story import RESET_SEEDS, Client, Echo, passed, serve_echo, story_digest
from tidelog.runtime import Address, NetworkFailure, Runtime
from tidelog.runtime.logs import fields
from tidelog.simulation import PowerCut, SimulationFailed, World
from tidelog.simulation.disk_faults import Operation

ADDRESS = Address("broker-1", 9092)


@pytest.fixture
def world() -> Iterator[World]:
    with World(seed=3) as made:
        yield made


async def connected(world: World) -> Client:
    await passed(0.1)
    return await world.node("client").runtime.network.connect(Client, ADDRESS)


def test_same_seed_same_digest_twice_in_one_process() -> None:
    assert story_digest(11) == story_digest(11)


def test_another_seed_is_another_story() -> None:
    assert len({story_digest(seed) for seed in (11, 12, 13)}) == 3


@pytest.mark.slow
@pytest.mark.parametrize("hash_seed", ["0", "4711"])
def test_same_seed_same_digest_in_another_process_under_another_hash_seed(hash_seed: str) -> None:
    script = "from tests.simulation.story import story_digest; print(story_digest(11))"
    root = Path(__file__).parents[2]
    told = subprocess.run(
        [sys.executable, "-c", script],
        cwd=root,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{root}:{root / 'src'}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.strip() == story_digest(11)


def is_finished(client: Client) -> bool:
    return client.is_lost or len(client.received) == 1_000


@pytest.mark.parametrize("seed", RESET_SEEDS)
def test_resets_at_random_moments_lose_connections_and_nothing_else(seed: int) -> None:
    with World(seed) as world:
        world.node("broker-1").start(serve_echo)

        async def run() -> None:
            world.fabric.link("client", "broker-1").reset_chance = 0.3
            for _ in range(20):
                client = await connected(world)
                client.transport.write(b"x" * 1_000)
                await client.until(partial(is_finished, client))
                client.transport.abort()

        world.run(run())
        assert world.fabric.reset_count > 0


def test_killing_a_node_closes_its_connections_and_refuses_new_ones(world: World) -> None:
    world.node("broker-1").start(serve_echo)

    async def run() -> None:
        client = await connected(world)
        world.node("broker-1").kill()
        await client.until(lambda: client.is_lost)
        with pytest.raises(NetworkFailure, match="Connection refused"):
            await world.node("client").runtime.network.connect(Client, ADDRESS)
        world.node("broker-1").restart()
        await client_echoes(world)

    world.run(run())


async def client_echoes(world: World) -> None:
    client = await connected(world)
    client.transport.write(b"hello")
    await client.until(lambda: client.received == b"hello")
    client.transport.close()


def test_a_power_cut_is_silent_until_the_host_is_back(world: World) -> None:
    world.node("broker-1").start(serve_echo)

    async def run() -> None:
        client = await connected(world)
        world.node("broker-1").power_cut()
        client.transport.write(b"anybody there?")
        await passed(60)
        assert not client.is_lost
        world.node("broker-1").restart()
        await client.until(lambda: client.is_lost)
        assert isinstance(client.error, ConnectionResetError)

    world.run(run())


def test_an_idle_half_open_connection_is_reset_when_it_is_used_again(world: World) -> None:
    world.node("broker-1").start(serve_echo)

    async def run() -> None:
        client = await connected(world)
        world.node("broker-1").power_cut()
        world.node("broker-1").restart()
        await passed(10)
        assert not client.is_lost
        client.transport.write(b"anybody there?")
        await client.until(lambda: client.is_lost)

    world.run(run())


def test_a_partition_holds_bytes_and_healing_delivers_them(world: World) -> None:
    world.node("broker-1").start(serve_echo)

    async def run() -> None:
        client = await connected(world)
        world.fabric.partition(["client"], ["broker-1"])
        client.transport.write(b"held")
        await passed(30)
        assert not client.received
        world.fabric.heal()
        await client.until(lambda: client.received == b"held")

    world.run(run())
    assert world.fabric.held_count > 0


def test_a_one_way_cut_lets_requests_through_and_no_answers(world: World) -> None:
    heard: list[bytes] = []

    class Listener(Echo):
        def data_received(self, data: bytes) -> None:
            heard.append(data)
            super().data_received(data)

    async def serve(runtime: Runtime) -> None:
        await runtime.network.listen(Listener, Address("0.0.0.0", 9092))  # noqa: S104
        await asyncio.Event().wait()

    world.node("broker-1").start(serve)

    async def run() -> None:
        client = await connected(world)
        world.fabric.cut("broker-1", "client")
        client.transport.write(b"question")
        await passed(30)
        assert (b"".join(heard), bytes(client.received)) == (b"question", b"")
        world.fabric.mend("broker-1", "client")
        await client.until(lambda: client.received == b"question")

    world.run(run())


def test_connecting_to_a_host_without_power_times_out(world: World) -> None:
    world.node("broker-1").start(serve_echo)

    async def run() -> float:
        await passed(0.1)
        world.node("broker-1").power_cut()
        with pytest.raises(NetworkFailure, match="timed out"):
            await world.node("client").runtime.network.connect(Client, ADDRESS)
        return world.loop.time()

    assert world.run(run()) > 100


def test_a_cancelled_connect_leaves_no_half_of_a_connection(world: World) -> None:
    world.node("broker-1").start(serve_echo)

    async def run() -> None:
        await passed(0.1)
        world.fabric.slow("broker-1", "client", latency_ms=(5_000, 5_001))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await world.node("client").runtime.network.connect(Client, ADDRESS)
        await passed(20)
        assert not world.node("client").host.transports
        assert not world.node("broker-1").host.transports

    world.run(run())


def test_bandwidth_and_latency_take_their_time(world: World) -> None:
    world.node("broker-1").start(serve_echo)

    async def run() -> float:
        client = await connected(world)
        world.fabric.slow("client", "broker-1", latency_ms=(100, 100), bytes_per_ms=10)
        began = world.loop.time()
        client.transport.write(b"x" * 10_000)
        await client.until(lambda: len(client.received) == 10_000)
        return world.loop.time() - began

    assert 1.1 < world.run(run()) < 1.3


def test_a_loopback_listener_is_not_reached_from_elsewhere(world: World) -> None:
    async def serve(runtime: Runtime) -> None:
        await runtime.network.listen(Echo, Address("127.0.0.1", 9092))
        await asyncio.Event().wait()

    world.node("broker-1").start(serve)

    async def run() -> None:
        with pytest.raises(NetworkFailure, match="Connection refused"):
            await connected(world)
        await world.node("broker-1").runtime.network.connect(Client, Address("localhost", 9092))

    world.run(run())


def test_a_paused_node_answers_when_resumed(world: World) -> None:
    world.node("broker-1").start(serve_echo)

    async def run() -> None:
        client = await connected(world)
        world.node("broker-1").pause()
        client.transport.write(b"hello")
        await passed(30)
        assert not client.received
        world.node("broker-1").resume()
        await client.until(lambda: client.received == b"hello")

    world.run(run())


async def write_unflushed(runtime: Runtime) -> None:
    if not runtime.disk.exists("/data/f"):
        runtime.disk.mkdir("/data")
        runtime.disk.fsync_dir("/")
        file = runtime.disk.open("/data/f", create=True)
        runtime.disk.fsync_dir("/data")
        file.pwrite(0, [b"x" * 1_000])
    await asyncio.Event().wait()


def test_a_kill_keeps_unflushed_bytes_and_a_power_cut_risks_them() -> None:
    left: dict[str, set[int]] = {"kill": set(), "power_cut": set()}
    for how, sizes in left.items():
        for seed in range(30):
            with World(seed) as world:
                node = world.node("broker-1")
                node.start(write_unflushed)
                world.run_for_ms(10)
                getattr(node, how)()
                node.restart()
                sizes.add(len(node.disk.read("/data/f")))
    assert left["kill"] == {1_000}
    assert {0, 1_000} < left["power_cut"]


def test_a_node_killed_by_its_own_disk_operation_does_nothing_more(world: World) -> None:
    node = world.node("broker-1")
    reached: list[str] = []

    async def main(runtime: Runtime) -> None:
        try:
            runtime.disk.mkdir("/a")
            reached.append("still running")
            runtime.disk.mkdir("/b")
        finally:
            reached.append("unwinding")
            with pytest.raises(PowerCut):
                runtime.disk.mkdir("/c")

    node.disk.on_operation(lambda operation: node.power_cut() if operation.path == "/a" else None)
    node.start(main)
    world.run_for_ms(1_000)
    assert reached == ["still running", "unwinding"]
    assert not node.is_running


def test_a_node_killed_by_work_in_its_disks_thread_does_nothing_more_and_nobody_is_blamed(world: World) -> None:
    node = world.node("broker-1")

    def die(_: Operation) -> None:
        node.kill()
        raise PowerCut

    async def main(runtime: Runtime) -> None:
        file = runtime.disk.open("/f", create=True)
        node.disk.on_operation(die)
        await asyncio.get_running_loop().run_in_executor(runtime.disk.threads("/"), file.fsync)
        raise AssertionError("the dead go on")

    node.start(main)
    world.run_for_ms(100)
    assert not node.is_running


def test_a_main_that_raises_fails_the_run_with_seed_and_trace() -> None:
    async def main(runtime: Runtime) -> None:
        await passed(1)
        raise ValueError("a bug")

    def run() -> None:
        with World(seed=77) as world:
            world.node("broker-1").start(main)
            world.run_for_ms(5_000)

    with pytest.raises(SimulationFailed, match="a bug") as failure:
        run()
    assert "seed 77" in failure.value.__notes__[0]
    assert "broker-1" in failure.value.__notes__[0]


def test_a_main_that_returns_ends_the_process(world: World) -> None:
    async def main(runtime: Runtime) -> None:
        await runtime.network.listen(Echo, Address("0.0.0.0", 9092))  # noqa: S104

    node = world.node("broker-1")
    node.start(main)
    world.run_for_ms(10)
    assert not node.is_running
    assert not node.host.listeners


def test_what_shells_log_is_in_the_trace_with_time_and_node(world: World) -> None:
    async def main(runtime: Runtime) -> None:
        await passed(1.5)
        logging.getLogger("tidelog.broker").info("leader elected", extra=fields(partition="t-0", leader_epoch=3))

    world.node("broker-1").start(main)
    world.run_for_ms(2_000)
    assert "1500.000 broker-1     leader elected partition=t-0 leader_epoch=3" in world.trace.text()


def test_clocks_of_two_nodes_may_disagree_about_the_time_of_day(world: World) -> None:
    one, other = world.node("one").clock, world.node("other").clock
    one.jump_wall_ms(-3_600_000)
    other.set_drift(0.01)
    world.run_for_ms(100_000)
    assert one.monotonic_ms() == other.monotonic_ms() == 100_000
    assert other.wall_ms() - one.wall_ms() == 3_601_000


def test_a_restarted_node_draws_other_chance_and_counts_from_zero(world: World) -> None:
    node = world.node("broker-1")
    before = node.runtime
    before.metrics.counter("requests_total").add()
    node.restart()
    assert node.runtime.metrics.value("requests_total") == 0
    assert node.runtime.randomness.uuid() != before.randomness.uuid()
