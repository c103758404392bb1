"""Connect strings, chroots, wrong addresses, credentials and sizes."""

from __future__ import annotations

import asyncio
import importlib.util

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from tests.registry.zookeeper.opened import Bell, new_chroot, opened, run
from tests.zookeeper_ensemble import shared_server
from tidelog.config.replication import DIGEST, DIGEST_MD5
from tidelog.registry import BadRequest, Check, Create, NoNode, RegistryUnavailable
from tidelog.registry.zookeeper import ZooKeeperRegistry
from tidelog.registry.zookeeper_options import REQUEST_BYTES_MAX, Ensemble, ZooKeeperOptions


@pytest.mark.parametrize(
    ("connect", "hosts", "parts"),
    [
        ("a:1", "a:1", []),
        ("a:1, b:2 ", "a:1,b:2", []),
        ("a", "a", []),
        ("a:1/", "a:1", []),
        ("[::1]:2181,[::2]/x", "[::1]:2181,[::2]", ["/x"]),
        ("a:1,b:2/kafka/east/", "a:1,b:2", ["/kafka", "/kafka/east"]),
    ],
)
def test_connect_string_names_members_and_a_chroot(connect: str, hosts: str, parts: list[str]) -> None:
    ensemble = Ensemble.parse(connect)
    assert (ensemble.hosts, ensemble.chroot_parts()) == (hosts, parts)


@pytest.mark.parametrize("connect", ["", "/x", "a:b", "a:0", "a:70000", "a:1,,b:2", "::1:2181", "a:1//x", "a:1/../x"])
def test_malformed_connect_string_is_refused_in_words(connect: str) -> None:
    with pytest.raises(RegistryUnavailable) as refused:
        ZooKeeperRegistry(connect)
    assert not refused.value.may_pass


@pytest.mark.parametrize("path", ["/", "/a", "/a/b"])
@pytest.mark.parametrize("connect", ["a:1", "a:1/x", "a:1/x/y"])
def test_paths_go_through_the_chroot_and_back(connect: str, path: str) -> None:
    ensemble = Ensemble.parse(connect)
    assert ensemble.inside(ensemble.outside(path)) == path


def test_chroot_is_created_and_hides_the_rest() -> None:
    async def story() -> None:
        server, chroot = shared_server().connect_string, new_chroot()
        async with opened(f"{server}{chroot}/deep/er") as inner, opened(f"{server}{chroot}") as outer:
            assert await inner.children("/") == []
            assert await inner.create("/n-", sequential=True) == "/n-0000000000"
            assert await outer.children("/deep/er") == ["n-0000000000"]
            with pytest.raises(NoNode) as refused:
                await inner.create("/missing/child")
            assert refused.value.path == "/missing"
            bell = Bell()
            await inner.watch("/", bell)
            await outer.create("/deep/er/x")
            await bell.wait()

    run(story())


def test_two_handles_may_create_one_chroot() -> None:
    async def story() -> None:
        connect = shared_server().connect_string + new_chroot()
        async with opened(connect) as first, opened(connect) as second:
            await first.create("/a")
            assert await second.exists("/a")

    run(story())


@pytest.mark.timed
@pytest.mark.parametrize("address", ["127.0.0.1:1", "no-such-host.invalid:2181"])
def test_registry_that_is_not_there_is_told_within_the_connection_timeout(address: str) -> None:
    async def story() -> None:
        registry = ZooKeeperRegistry(address, session_timeout_ms=4_000, connection_timeout_ms=300)
        with pytest.raises(RegistryUnavailable, match=r"no connection within 300 ms") as told:
            await registry.open_session()
        assert told.value.where == address
        assert told.value.may_pass
        assert registry.session_id is None
        await registry.close()

    run(story())


def test_close_does_not_wait_for_a_connection() -> None:
    async def story() -> None:
        registry = ZooKeeperRegistry("127.0.0.1:1", connection_timeout_ms=600_000)
        opening = asyncio.ensure_future(registry.open_session())
        await asyncio.wait([opening], timeout=0.05)
        await registry.close()
        with pytest.raises(RegistryUnavailable):
            await opening
        assert registry.session_id is None

    run(story())


def test_name_that_only_zookeeper_refuses_is_refused_as_a_bad_request() -> None:
    async def story() -> None:
        async with opened(shared_server().connect_string + new_chroot()) as registry:
            with pytest.raises(BadRequest):
                await registry.create("/\ue000")
            assert not await registry.exists("/\ue000")

    run(story())


@pytest.mark.timed
def test_reason_of_a_failed_start_names_the_member() -> None:
    async def story() -> None:
        registry = ZooKeeperRegistry("127.0.0.1:1", connection_timeout_ms=500)
        with pytest.raises(RegistryUnavailable, match=r"127\.0\.0\.1:1: Connection refused"):
            await registry.open_session()
        await registry.close()

    run(story())


def test_multi_too_large_for_a_request_is_refused_and_harms_nobody() -> None:
    async def story() -> None:
        async with opened(shared_server().connect_string + new_chroot()) as registry:
            session_id = registry.session_id
            with pytest.raises(BadRequest, match=f"{REQUEST_BYTES_MAX} are allowed"):
                await registry.multi([Create(f"/{number}", bytes(300_000)) for number in range(4)])
            await registry.multi([Create(f"/{number}", bytes(340_000)) for number in range(3)])
            assert await registry.children("/") == ["0", "1", "2"]
            assert registry.session_id == session_id

    run(story())


def test_largest_request_that_is_allowed_is_accepted_by_a_server() -> None:
    async def story() -> None:
        chroot = new_chroot()
        async with opened(shared_server().connect_string + chroot) as registry:
            overhead = 8 + 2 * (9 + 4 + 4 + 4 + 4 + 5 + 5 + 4 + 6 + 4) + 9
            data = REQUEST_BYTES_MAX - overhead - 2 * len(f"{chroot}/a")
            try:
                await registry.multi([Create("/a", bytes(data // 2)), Create("/b", bytes(data // 2))])
            except BadRequest:
                pytest.fail("the test's own sum is wrong")
            with pytest.raises(BadRequest):
                await registry.multi([Create("/c", bytes(data // 2)), Create("/d", bytes(data // 2 + 99))])

    run(story())


def test_checked_node_is_told_with_its_data() -> None:
    async def story() -> None:
        async with opened(shared_server().connect_string + new_chroot()) as registry:
            await registry.create("/epoch", b"7")
            outcomes = await registry.multi([Check("/epoch", 0), Create("/a")])
            assert outcomes[0].node == await registry.get("/epoch")

    run(story())


def test_five_thousand_nodes_are_read_in_a_few_requests() -> None:
    async def story() -> None:
        async with opened(shared_server().connect_string + new_chroot()) as registry:
            for first in range(0, 5_000, 1_000):
                await registry.multi([Create(f"/{number}", b"%d" % number) for number in range(first, first + 1_000)])
            nodes = await registry.get_many([f"/{number}" for number in range(5_001)])
            assert [node and node.data for node in nodes] == [*(b"%d" % number for number in range(5_000)), None]

    run(story())


def test_node_of_somebody_else_is_read_with_credentials_only() -> None:
    server, chroot = shared_server().connect_string, new_chroot()
    owner = KazooClient(hosts=server)
    owner.start()
    owner.ensure_path(chroot)
    owner.create(f"{chroot}/secret", b"1", acl=[make_digest_acl("alice", "wonder:land", all=True)])
    owner.stop()
    owner.close()

    async def story() -> None:
        options = ZooKeeperOptions(mechanism=DIGEST, username="alice", password="wonder:land")
        async with opened(f"{server}{chroot}", options=options) as registry:
            assert (await registry.get("/secret")).data == b"1"
            await registry.set("/secret", b"2")
        async with opened(f"{server}{chroot}") as stranger:
            for call in (stranger.get("/secret"), stranger.set("/secret", b"3"), stranger.create("/secret/child")):
                with pytest.raises(RegistryUnavailable, match="no permission") as refused:
                    await call
                assert not refused.value.may_pass

    run(story())


def test_passwords_are_not_shown() -> None:
    options = ZooKeeperOptions(mechanism=DIGEST, username="alice", password="wonderland", key_password="rabbit")
    assert "wonderland" not in repr(options)
    assert "rabbit" not in repr(options)


def test_missing_library_of_a_mechanism_is_told() -> None:
    if importlib.util.find_spec("puresasl") is not None:
        return  # it is there

    async def story() -> None:
        options = ZooKeeperOptions(mechanism=DIGEST_MD5, username="alice", password="wonderland")
        registry = ZooKeeperRegistry("127.0.0.1:1", options=options)
        with pytest.raises(RegistryUnavailable, match=r"pip install 'kazoo\[sasl\]'"):
            await registry.open_session()

    run(story())
