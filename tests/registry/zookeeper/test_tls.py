"""TLS with a real server whose certificate is made for the occasion by the tool that comes with every Java."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.registry.zookeeper.opened import opened, run
from tests.zookeeper_ensemble import ZooKeeperEnsemble, java
from tidelog.registry import RegistryUnavailable
from tidelog.registry.zookeeper import ZooKeeperRegistry
from tidelog.registry.zookeeper_options import ZooKeeperOptions
from tidelog.testing.ports import free_ports

pytestmark = [
    pytest.mark.slow,
    # Kazoo leaves it to the interpreter to close a socket whose handshake has failed.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <ssl.SSLSocket"),
]


@dataclass(frozen=True, slots=True)
class SecureServer:
    """Where it is, what it is called in its certificate, and the certificate."""

    port: int
    certificate: str


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureServer]:
    directory = tmp_path_factory.mktemp("tls")
    store, trusted, certificate = directory / "server.p12", directory / "trusted.p12", directory / "server.pem"
    keytool("-genkeypair", "-keystore", store, "-dname", "CN=localhost", "-ext", "san=dns:localhost", "-keyalg", "EC")
    keytool("-exportcert", "-keystore", store, "-rfc", "-file", certificate)
    keytool("-importcert", "-keystore", trusted, "-noprompt", "-file", certificate)
    [port] = free_ports(1)
    settings = (
        f"secureClientPort={port}",
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
        *(f"ssl.keyStore.location={store}", "ssl.keyStore.password=secret", "ssl.keyStore.type=PKCS12"),
        *(f"ssl.trustStore.location={trusted}", "ssl.trustStore.password=secret", "ssl.trustStore.type=PKCS12"),
        "ssl.clientAuth=none",
    )
    with ZooKeeperEnsemble(directory, servers=1, settings=settings):
        yield SecureServer(port, str(certificate))


def keytool(*arguments: object) -> None:
    command = [str(Path(java()).with_name("keytool")), *map(str, arguments)]
    subprocess.run([*command, "-alias", "server", "-storepass", "secret"], check=True, capture_output=True)


def test_server_with_a_certificate_we_trust_is_spoken_to(server: SecureServer) -> None:
    async def story() -> None:
        options = ZooKeeperOptions(is_tls=True, ca_file=server.certificate)
        async with opened(f"localhost:{server.port}/tls", options=options) as registry:
            await registry.create("/a", bytes(100_000))
            assert len((await registry.get("/a")).data) == 100_000

    run(story())


@pytest.mark.parametrize(
    ("host", "is_known", "reason"),
    [("localhost", False, "certificate verify failed"), ("127.0.0.1", True, "IP address mismatch")],
    ids=["a certificate of nobody", "a certificate for another name"],
)
def test_server_we_cannot_trust_is_not_spoken_to(
    server: SecureServer, host: str, *, is_known: bool, reason: str
) -> None:
    async def story() -> None:
        options = ZooKeeperOptions(is_tls=True, ca_file=server.certificate if is_known else None)
        registry = ZooKeeperRegistry(f"{host}:{server.port}", connection_timeout_ms=1_500, options=options)
        with pytest.raises(RegistryUnavailable, match=reason):
            await registry.open_session()
        await registry.close()

    run(story())


def test_distrust_can_be_turned_off(server: SecureServer) -> None:
    async def story() -> None:
        options = ZooKeeperOptions(is_tls=True, verifies=False)
        async with opened(f"127.0.0.1:{server.port}", options=options) as registry:
            assert await registry.exists("/")

    run(story())


def test_missing_certificate_file_is_told(server: SecureServer) -> None:
    async def story() -> None:
        options = ZooKeeperOptions(is_tls=True, ca_file="no-such.pem")
        registry = ZooKeeperRegistry(f"localhost:{server.port}", connection_timeout_ms=500, options=options)
        with pytest.raises(RegistryUnavailable, match="No such file"):
            await registry.open_session()
        await registry.close()

    run(story())
