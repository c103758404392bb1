"""Which registry a broker's settings mean."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.cli.failure import WrongUsage
from tidelog.cli.registry import open_registry, registry_path, zookeeper_options
from tidelog.config import BrokerConfig
from tidelog.registry import Registry, RegistryUnavailable
from tidelog.registry.sqlite import SqliteRegistry
from tidelog.registry.zookeeper import ZooKeeperRegistry


def chosen(**settings: str) -> BrokerConfig:
    return BrokerConfig.from_properties({name.replace("_", "."): value for name, value in settings.items()})


def opened(config: BrokerConfig) -> Registry:
    async def look() -> Registry:
        registry = open_registry(config)
        await registry.close()
        return registry

    return asyncio.run(look())


def test_without_zookeeper_the_registry_is_a_file_in_the_first_log_directory(tmp_path: Path) -> None:
    config = chosen(log_dirs=f"{tmp_path}/a/logs,{tmp_path}/b/logs")
    assert registry_path(config) == tmp_path / "a" / "logs" / "registry.sqlite"
    assert isinstance(opened(config), SqliteRegistry)


def test_a_registry_beside_the_log_directory_is_used_unless_there_is_one_in_it(tmp_path: Path) -> None:
    config = chosen(log_dirs=f"{tmp_path}/logs")
    (tmp_path / "logs").mkdir()
    (tmp_path / "registry.sqlite").touch()
    assert registry_path(config) == tmp_path / "registry.sqlite"
    (tmp_path / "logs" / "registry.sqlite").touch()
    assert registry_path(config) == tmp_path / "logs" / "registry.sqlite"


def test_its_file_can_be_chosen(tmp_path: Path) -> None:
    assert registry_path(chosen(tidelog_registry_path=f"{tmp_path}/r")) == tmp_path / "r"


def test_with_zookeeper_it_is_an_ensemble() -> None:
    assert isinstance(opened(chosen(zookeeper_connect="a:1,b:2/kafka")), ZooKeeperRegistry)


def test_malformed_address_is_told_before_anything_is_connected() -> None:
    with pytest.raises(RegistryUnavailable, match="expected host:port,host:port/chroot"):
        opened(chosen(zookeeper_connect="a:b"))


def test_security_settings_reach_the_connection() -> None:
    config = BrokerConfig.from_properties(
        {
            "tidelog.zookeeper.tls.enable": "true",
            "tidelog.zookeeper.tls.ca.file": "ca.pem",
            "tidelog.zookeeper.tls.certificate.file": "c.pem",
            "tidelog.zookeeper.tls.key.file": "k.pem",
            "tidelog.zookeeper.tls.key.password": "secret",
            "tidelog.zookeeper.tls.verify": "false",
            "tidelog.zookeeper.auth.mechanism": "DIGEST-MD5",
            "tidelog.zookeeper.auth.username": "alice",
            "tidelog.zookeeper.auth.password": "wonderland",
        }
    )
    options = zookeeper_options(config)
    assert (options.is_tls, options.verifies) == (True, False)
    assert (options.ca_file, options.certificate_file, options.key_file) == ("ca.pem", "c.pem", "k.pem")
    assert (options.key_password, options.mechanism) == ("secret", "DIGEST-MD5")
    assert (options.username, options.password) == ("alice", "wonderland")


def test_nobody_is_authenticated_unless_asked_for() -> None:
    options = zookeeper_options(BrokerConfig())
    assert (options.is_tls, options.verifies, options.mechanism) == (False, True, None)


@pytest.mark.parametrize("mechanism", ["digest", "DIGEST-MD5"])
def test_mechanism_with_a_password_needs_one(mechanism: str) -> None:
    config = BrokerConfig.from_properties(
        {"tidelog.zookeeper.auth.mechanism": mechanism, "tidelog.zookeeper.auth.username": "alice"}
    )
    with pytest.raises(WrongUsage, match=r"needs tidelog\.zookeeper\.auth\.username and"):
        zookeeper_options(config)


@pytest.mark.slow
def test_broker_with_a_file_does_not_load_kazoo() -> None:
    look = "import sys, tidelog.cli.registry; sys.exit('kazoo' in sys.modules)"
    subprocess.run([sys.executable, "-c", look], check=True)
