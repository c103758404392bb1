"""Kafka's settings that this broker does not have, so that a stock configuration file starts it and hears what it did not heed.

Every name is spelled out, not matched by its beginning: a misspelt one is still refused, with the nearest right name. Those
that protect a broker are not passed over but refused: without them it would be open to people its operator shut out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidelog.config.errors import ConfigError

_ONE_LOOP: Final = "one event loop serves a broker; more cores are used by more brokers"
_REGISTRY: Final = "coordination lives in the registry"
_REPLICATION: Final = "a broker has one connection to each leader it follows, and sets no more than its timeout"
_SHARE_GROUPS: Final = "there are no share groups"
_STREAMS_GROUPS: Final = "there are no streams groups"
_TIERED: Final = "all segments are local"
_QUOTAS: Final = "there are no quotas yet"
_METRICS: Final = "metrics are counted by the broker itself"
_WAITERS: Final = "a request that waits is forgotten as soon as it is answered"
_CONNECTIONS: Final = "connections are not counted yet"
_CLEANER: Final = "compaction runs in one child process, one partition at a time"
_OLD: Final = "Kafka 4 has no such setting any more"

_OPEN_TO_ALL: Final = "and a broker that passed over this setting would be open to everybody"
NO_SECURITY: Final = f"TLS and SASL are not served yet, {_OPEN_TO_ALL}"
_NO_ACLS: Final = f"there are no ACLs yet, {_OPEN_TO_ALL}"
_NO_TOKENS: Final = f"there are no delegation tokens, {_OPEN_TO_ALL}"
_NO_JAVA: Final = "classes written for the JVM cannot be loaded, and what they forbid would be allowed"


def _each(reasons: Mapping[str, str]) -> dict[str, str]:
    """Turn `names separated by blanks -> reason` into `name -> reason`."""
    return {name: reason for names, reason in reasons.items() for name in names.split()}


WITHOUT_EFFECT: Final[Mapping[str, str]] = _each({
    "num.network.threads num.io.threads": _ONE_LOOP,
    "background.threads": "each log directory has a few threads of its own",
    "num.recovery.threads.per.data.dir": "each log directory recovers in one thread, side by side with the others",
    "log.dir.failure.timeout.ms log.initial.task.delay.ms server.max.startup.time.ms": "a failed directory goes offline at once",
    "cordoned.log.dirs num.replica.alter.log.dirs.threads": "replicas do not move between log directories",
    "process.roles": "every broker can become controller",
    "controller.listener.names early.start.listeners": "the controller is reached through the broker's listeners",
    "controller.quorum.voters controller.quorum.bootstrap.servers controller.quorum.append.linger.ms controller.quorum.auto.join.enable "
    "controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms controller.quorum.fetch.max.bytes "
    "controller.quorum.fetch.snapshot.max.bytes controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms "
    "controller.quorum.retry.backoff.ms controller.socket.timeout.ms controller.performance.always.log.threshold.ms "
    "controller.performance.sample.period.ms broker.heartbeat.interval.ms broker.session.timeout.ms "
    "initial.broker.registration.timeout.ms internal.metadata.delete.delay.millis internal.metadata.log.segment.bytes "
    "internal.metadata.max.batch.size.in.bytes metadata.log.dir metadata.log.max.record.bytes.between.snapshots "
    "metadata.log.max.snapshot.interval.ms metadata.log.segment.bytes metadata.log.segment.ms metadata.max.idle.interval.ms "
    "metadata.max.retention.bytes metadata.max.retention.ms unstable.feature.versions.enable "
    "zookeeper.max.in.flight.requests zookeeper.set.acl zookeeper.metadata.migration.enable control.plane.listener.name": _REGISTRY,
    "group.coordinator.background.threads group.coordinator.threads": _ONE_LOOP,
    "group.coordinator.append.linger.ms group.coordinator.cached.buffer.max.bytes": "what a coordinator decides is appended at once",
    "group.coordinator.rebalance.protocols": "classic and consumer groups are always served",
    "group.consumer.assignment.interval.ms group.consumer.max.assignment.interval.ms "
    "group.consumer.min.assignment.interval.ms": "a group's assignment is computed when it changes",
    "group.consumer.max.heartbeat.interval.ms group.consumer.max.session.timeout.ms group.consumer.min.heartbeat.interval.ms "
    "group.consumer.min.session.timeout.ms": "groups have no settings of their own, which these would bound",
    "offsets.load.buffer.size": "256 KiB are read at a time, so that the loop is not held",
    "group.share.assignment.interval.ms group.share.assignors group.share.delivery.count.limit group.share.enable "
    "group.share.heartbeat.interval.ms group.share.initialize.retry.interval.ms group.share.max.assignment.interval.ms "
    "group.share.max.delivery.count.limit group.share.max.groups group.share.max.heartbeat.interval.ms "
    "group.share.max.partition.max.record.locks group.share.max.record.lock.duration.ms group.share.max.session.timeout.ms "
    "group.share.max.share.sessions group.share.max.size group.share.min.assignment.interval.ms "
    "group.share.min.delivery.count.limit group.share.min.heartbeat.interval.ms group.share.min.partition.max.record.locks "
    "group.share.min.record.lock.duration.ms group.share.min.session.timeout.ms group.share.partition.max.record.locks "
    "group.share.persister.class.name group.share.record.lock.duration.ms group.share.session.timeout.ms "
    "share.coordinator.append.linger.ms share.coordinator.cached.buffer.max.bytes "
    "share.coordinator.cold.partition.snapshot.interval.ms share.coordinator.load.buffer.size "
    "share.coordinator.snapshot.update.records.per.snapshot share.coordinator.state.topic.compression.codec "
    "share.coordinator.state.topic.min.isr share.coordinator.state.topic.num.partitions "
    "share.coordinator.state.topic.prune.interval.ms share.coordinator.state.topic.replication.factor "
    "share.coordinator.state.topic.segment.bytes share.coordinator.threads share.coordinator.write.timeout.ms "
    "share.fetch.purgatory.purge.interval.requests": _SHARE_GROUPS,
    "group.streams.assignment.interval.ms group.streams.heartbeat.interval.ms group.streams.initial.rebalance.delay.ms "
    "group.streams.max.assignment.interval.ms group.streams.max.heartbeat.interval.ms group.streams.max.session.timeout.ms "
    "group.streams.max.size group.streams.max.standby.replicas group.streams.min.assignment.interval.ms "
    "group.streams.min.heartbeat.interval.ms group.streams.min.session.timeout.ms group.streams.num.standby.replicas "
    "group.streams.session.timeout.ms": _STREAMS_GROUPS,
    "transaction.state.log.load.buffer.size": "a coordinator is loaded a few milliseconds at a time",
    "num.replica.fetchers replica.socket.receive.buffer.bytes "
    "security.inter.broker.protocol socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms "
    "unclean.leader.election.interval.ms": _REPLICATION,
    "alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds "
    "controller.quota.window.num controller.quota.window.size.seconds quota.window.num quota.window.size.seconds "
    "replication.quota.window.num replication.quota.window.size.seconds": _QUOTAS,
    "follower.fetch.last.tiered.offset.enable log.local.retention.bytes log.local.retention.ms remote.fetch.max.wait.ms "
    "remote.list.offsets.request.timeout.ms remote.log.index.file.cache.total.size.bytes remote.log.index.file.cache.ttl.ms "
    "remote.log.manager.copier.thread.pool.size remote.log.manager.copy.max.bytes.per.second "
    "remote.log.manager.copy.quota.window.num remote.log.manager.copy.quota.window.size.seconds "
    "remote.log.manager.expiration.thread.pool.size remote.log.manager.fetch.max.bytes.per.second "
    "remote.log.manager.fetch.quota.window.num remote.log.manager.fetch.quota.window.size.seconds "
    "remote.log.manager.follower.thread.pool.size remote.log.manager.task.interval.ms "
    "remote.log.manager.task.retry.backoff.max.ms remote.log.manager.task.retry.backoff.ms "
    "remote.log.manager.task.retry.jitter remote.log.manager.thread.pool.size remote.log.metadata.custom.metadata.max.bytes "
    "remote.log.metadata.manager.class.name remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix "
    "remote.log.metadata.manager.listener.name remote.log.reader.max.pending.tasks remote.log.reader.threads "
    "remote.log.storage.manager.class.name remote.log.storage.manager.class.path remote.log.storage.manager.impl.prefix "
    "remote.log.storage.system.enable": _TIERED,
    "kafka.metrics.polling.interval.secs kafka.metrics.reporters auto.include.jmx.reporter metric.reporters metrics.num.samples "
    "metrics.recording.level metrics.sample.window.ms telemetry.max.bytes": _METRICS,
    "delete.records.purgatory.purge.interval.requests fetch.purgatory.purge.interval.requests "
    "producer.purgatory.purge.interval.requests": _WAITERS,
    "max.connection.creation.rate max.connections.per.ip.overrides connection.failed.authentication.delay.ms": _CONNECTIONS,
    "max.request.partition.size.limit": "DescribeTopicPartitions answers at most 2000 partitions",
    "log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size log.cleaner.threads": _CLEANER,
    "unstable.api.versions.enable": "only finished versions of an API are served",
    "group.coordinator.new.enable offsets.commit.required.acks "
    "broker.id.generation.enable inter.broker.protocol.version log.message.format.version log.message.downconversion.enable "
    "log.message.timestamp.difference.max.ms": _OLD,
})  # fmt: skip

REFUSED: Final[Mapping[str, str]] = _each({
    "connections.max.reauth.ms sasl.client.callback.handler.class sasl.enabled.mechanisms sasl.jaas.config "
    "sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.principal.to.local.rules "
    "sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor "
    "sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms sasl.login.read.timeout.ms "
    "sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor "
    "sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms "
    "sasl.mechanism.controller.protocol sasl.mechanism.inter.broker.protocol sasl.oauthbearer.assertion.algorithm "
    "sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss "
    "sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds "
    "sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file "
    "sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.template.file "
    "sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret "
    "sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer "
    "sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms "
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.jwt.retriever.class "
    "sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name "
    "sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url sasl.server.callback.handler.class "
    "sasl.server.max.receive.size security.providers ssl.allow.dn.changes ssl.allow.san.changes ssl.cipher.suites "
    "ssl.client.auth ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.engine.factory.class ssl.key.password "
    "ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password "
    "ssl.keystore.type ssl.principal.mapping.rules ssl.protocol ssl.provider ssl.secure.random.implementation "
    "ssl.trustmanager.algorithm ssl.truststore.certificates ssl.truststore.location ssl.truststore.password "
    "ssl.truststore.type": NO_SECURITY,
    "authorizer.class.name super.users allow.everyone.if.no.acl.found": _NO_ACLS,
    "delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms delegation.token.max.lifetime.ms "
    "delegation.token.secret.key": _NO_TOKENS,
    "alter.config.policy.class.name client.quota.callback.class config.providers create.topic.policy.class.name "
    "principal.builder.class": _NO_JAVA,
})  # fmt: skip


class RefusedSetting(ConfigError):
    """A setting that cannot be passed over. The message does not hold the value: it may be a password."""

    def __init__(self, name: str) -> None:
        Exception.__init__(self, f"Configuration {name!r} is not supported: {REFUSED[name]}")
        self.name = name
        self.value = ""
        self.accepted = "nothing"


def check_protection(properties: Mapping[str, str]) -> None:
    """Raise RefusedSetting for the first given name that would protect a broker and does not protect this one."""
    for name in properties:
        if name in REFUSED:
            raise RefusedSetting(name)
