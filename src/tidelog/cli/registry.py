"""Which registry a broker's settings mean: a ZooKeeper ensemble, or a file that the brokers of this machine share."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Final

from tidelog.cli.failure import CommandFailed, WrongUsage
from tidelog.cli.reserve import registry_reserve
from tidelog.config import BrokerConfig
from tidelog.config.replication import GSSAPI, NO_AUTH
from tidelog.registry import Registry
from tidelog.registry.sqlite import SqliteRegistry
from tidelog.registry.zookeeper_options import ZooKeeperOptions

REGISTRY_FILE: Final = "registry.sqlite"


def open_registry(config: BrokerConfig) -> Registry:
    """A handle on the registry, without a session yet. Raises CommandFailed, or RegistryUnavailable for a malformed address."""
    if config.zookeeper_connect is None:
        path = registry_path(config)
        return SqliteRegistry(
            str(path),
            session_timeout_ms=config.registry_session_timeout_ms,
            reserve=registry_reserve(config, path),
        )
    options = zookeeper_options(config)
    if importlib.util.find_spec("kazoo") is None:
        raise CommandFailed("zookeeper.connect is set, but kazoo is not installed: pip install 'tidelog[zookeeper]'")
    # Only now: a broker with an embedded registry neither needs nor loads it.
    from tidelog.registry.zookeeper import ZooKeeperRegistry

    return ZooKeeperRegistry(
        config.zookeeper_connect,
        session_timeout_ms=config.zookeeper_session_timeout_ms,
        connection_timeout_ms=config.zookeeper_connection_timeout_ms,
        options=options,
    )


def registry_path(config: BrokerConfig) -> Path:
    """Where the embedded registry is: unless told, in the first log directory, since that may be all that a service's user owns.

    A registry beside that directory, with none in it, is one that brokers share, or that an earlier version has left there.
    """
    if config.registry_path:
        return Path(config.registry_path)
    inside = Path(config.log_dirs[0]) / REGISTRY_FILE
    beside = inside.parent.parent / REGISTRY_FILE
    return beside if beside.is_file() and not inside.exists() else inside


def zookeeper_options(config: BrokerConfig) -> ZooKeeperOptions:
    """TLS and credentials. Raises WrongUsage if they are incomplete."""
    mechanism = None if config.zookeeper_auth_mechanism == NO_AUTH else config.zookeeper_auth_mechanism
    has_password = config.zookeeper_auth_username is not None and config.zookeeper_auth_password is not None
    if mechanism not in (None, GSSAPI) and not has_password:
        names = "tidelog.zookeeper.auth.username and tidelog.zookeeper.auth.password"
        raise WrongUsage(f"tidelog.zookeeper.auth.mechanism={mechanism} needs {names}")
    return ZooKeeperOptions(
        is_tls=config.zookeeper_tls_enable,
        ca_file=config.zookeeper_tls_ca_file,
        certificate_file=config.zookeeper_tls_certificate_file,
        key_file=config.zookeeper_tls_key_file,
        key_password=config.zookeeper_tls_key_password,
        verifies=config.zookeeper_tls_verify,
        mechanism=mechanism,
        username=config.zookeeper_auth_username,
        password=config.zookeeper_auth_password,
    )
