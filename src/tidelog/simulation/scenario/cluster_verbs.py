"""Verbs that make a cluster and topics, and that do things to brokers, links and the registry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidelog.simulation.scenario.administration import alter_topic, create_topic, elect, reassign
from tidelog.simulation.scenario.arguments import Arguments
from tidelog.simulation.scenario.stage import CLIENT, Stage, StageSettings
from tidelog.simulation.scenario.verbs import needs, verb

NOTHING: Final[Sequence[str]] = ()
_QUIET: Final = {"auto.leader.rebalance.enable": "false"}
_HIGH_WATERMARK: Final = {"tidelog.lab.enable": "true", "replication.truncation": "high-watermark"}
_TOPIC_WORDS: Final = {"min-isr": "min.insync.replicas", "unclean": "unclean.leader.election.enable"}
_SETTLES_MS: Final = 2_000.0  # a follower hurries at first: it asks again after 20 ms, later after 500
_BOOLEANS: Final = {"yes": "true", "no": "false"}


@verb(
    "cluster NAME... [controller=NAME] [truncation=high-watermark] [lag=TIME] [checkers=no] [SETTING=VALUE...]",
    "Start production brokers, called by capital letters, and wait until they serve. `controller` starts first, and so becomes it; it "
    "may be one that is not among the names. `truncation=high-watermark` is the lab switch that cuts logs as Kafka did before 0.11. "
    "`lag` is replica.lag.time.max.ms. The checkers of the simulator watch the run, unless `checkers=no` or the lab switch. Preferred "
    "leaders are not elected by themselves.",
)
def _cluster(stage: Stage, arguments: Arguments) -> Sequence[str]:
    controller = arguments.option("controller")
    truncation = arguments.option("truncation") or "leader-epoch"
    settings = {**_QUIET, "replica.lag.time.max.ms": f"{arguments.duration_ms('lag', 30_000):.0f}"}
    is_checked = arguments.yes("checkers", default=True) and truncation == "leader-epoch"
    if truncation not in ("leader-epoch", "high-watermark"):
        raise arguments.wrong(f"truncation is leader-epoch or high-watermark, not {truncation}")
    settings |= {**(_HIGH_WATERMARK if truncation == "high-watermark" else {}), **arguments.settings()}
    names = arguments.rest("a broker's name")
    names = names if controller is None or controller in names else (*names, controller)
    if [*names] != [chr(ord("A") + place) for place in range(len(names))]:
        raise arguments.wrong("brokers are called A, B, C and so on, without a gap")
    arguments.finish()
    stage.build(StageSettings(names=names, controller=controller, settings=settings, is_checked=is_checked))
    return NOTHING


@verb(
    "topic NAME on BROKER... [min-isr=N] [unclean=yes] [SETTING=VALUE...]",
    "Make a topic of one partition with replicas on these brokers, the first of which leads, and let 2 s pass, until followers have "
    "settled. Tables show the topic that was made first; see `replicas`.",
)
def _topic(stage: Stage, arguments: Arguments) -> Sequence[str]:
    name = arguments.word("a name")
    arguments.literal("on")
    configs = _configs(arguments)
    replicas = [stage.broker_id(broker) for broker in arguments.rest("a broker")]
    arguments.finish()
    refused = create_topic(stage.cluster, name, replicas, configs)
    needs(refused is None, f"topic {name} was not made: {refused}")
    stage.topics.append(name)
    stage.shown = stage.shown or name
    partition = stage.topic_partition(name)
    stage.until(
        lambda: all(stage.records(each, partition) is not None for each in replicas), f"all replicas of {name} are open"
    )
    stage.cluster.world.run_for_ms(_SETTLES_MS)
    return NOTHING


@verb("alter TOPIC [min-isr=N] [unclean=yes|no] [SETTING=VALUE...]", "Change settings of a topic.")
def _alter(stage: Stage, arguments: Arguments) -> Sequence[str]:
    topic, _ = stage.topic_partition(arguments.word("a topic"))
    configs = _configs(arguments)
    arguments.finish()
    refused = alter_topic(stage.cluster, topic, configs)
    needs(refused is None, f"topic {topic} was not changed: {refused}")
    return NOTHING


@verb("replicas TOPIC", "Tables show this topic from now on.")
def _replicas(stage: Stage, arguments: Arguments) -> Sequence[str]:
    stage.shown = stage.topic_partition(arguments.word("a topic")).topic
    return NOTHING


@verb(
    "elect preferred|unclean [TOPIC...]",
    "Ask the controller to elect a leader, as an administrator does: `> election: done`, or the code of the refusal.",
)
def _elect(stage: Stage, arguments: Arguments) -> Sequence[str]:
    kind = arguments.one_of("a kind of election", ("preferred", "unclean"))
    topics = arguments.rest(None) or (None,)
    arguments.finish()
    return [f"election: {elect(stage.cluster, kind, stage.topic_partition(topic))}" for topic in topics]


@verb(
    "reassign TOPIC to BROKER...",
    "Ask the controller to move a topic's replicas to these brokers: `> reassignment: begun`, or the code of the refusal.",
)
def _reassign(stage: Stage, arguments: Arguments) -> Sequence[str]:
    partition = stage.topic_partition(arguments.word("a topic"))
    arguments.literal("to")
    replicas = [stage.broker_id(broker) for broker in _names(arguments)]
    return [f"reassignment: {reassign(stage.cluster, partition, replicas)}"]


@verb("kill BROKER...", "SIGKILL: the process ends, the page cache stays. The controller hears of it within 300 ms.")
def _kill(stage: Stage, arguments: Arguments) -> Sequence[str]:
    for name in _names(arguments):
        needs(stage.broker(name).node.is_running, f"{name} does not run")
        stage.broker(name).kill()
    return NOTHING


@verb(
    "power-cut BROKER...",
    "The machine goes dark: what was not flushed is lost or torn by chance. The session lapses after 9 s.",
)
def _power_cut(stage: Stage, arguments: Arguments) -> Sequence[str]:
    for name in _names(arguments):
        needs(stage.broker(name).node.is_running, f"{name} does not run")
        stage.broker(name).power_cut()
    return NOTHING


@verb("restart BROKER...", "Start a broker that is down, on its disk as it is, and wait until it has registered.")
def _restart(stage: Stage, arguments: Arguments) -> Sequence[str]:
    for name in _names(arguments):
        broker = stage.broker(name)
        needs(not broker.node.is_running, f"{name} runs already; see bounce")
        broker.restart()
        stage.until(lambda name=name: stage.is_registered(stage.broker_id(name)), f"{name} has registered")  # type: ignore[misc]
    return NOTHING


@verb("bounce BROKER", "Kill and restart a broker before anybody has noticed.")
def _bounce(stage: Stage, arguments: Arguments) -> Sequence[str]:
    name = _name(arguments)
    needs(stage.broker(name).node.is_running, f"{name} does not run")
    stage.broker(name).bounce()
    return NOTHING


@verb("stop BROKER", "Ask a broker to leave (SIGTERM), and wait until it has.")
def _stop(stage: Stage, arguments: Arguments) -> Sequence[str]:
    broker = stage.broker(_name(arguments))
    stage.cluster.world.run(broker.stop())
    return NOTHING


@verb("pause BROKER...", "SIGSTOP: the process does nothing, and does not know it.")
def _pause(stage: Stage, arguments: Arguments) -> Sequence[str]:
    for name in _names(arguments):
        stage.broker(name).pause()
    return NOTHING


@verb("resume BROKER...", "SIGCONT.")
def _resume(stage: Stage, arguments: Arguments) -> Sequence[str]:
    for name in _names(arguments):
        stage.broker(name).resume()
    return NOTHING


@verb("wipe BROKER", "Put an empty disk into a machine that is down.")
def _wipe(stage: Stage, arguments: Arguments) -> Sequence[str]:
    name = _name(arguments)
    needs(not stage.broker(name).node.is_running, f"{name} still runs")
    stage.broker(name).node.disk.wipe()
    return NOTHING


@verb("expire BROKER", "End the broker's session in the registry, though it runs.")
def _expire(stage: Stage, arguments: Arguments) -> Sequence[str]:
    stage.cluster.store.expire_node(stage.broker(_name(arguments)).node.name)
    return NOTHING


@verb(
    "cut ONE OTHER | cut ONE from OTHER | cut ONE from registry",
    "Nothing passes between two machines (`client` is one), or only nothing to ONE that OTHER sends; or ONE cannot reach the registry. "
    "What was sent waits, as TCP retransmits.",
)
def _cut(stage: Stage, arguments: Arguments) -> Sequence[str]:
    source = arguments.after("from")
    one = arguments.word("a machine")
    faults = stage.cluster.world.fabric.faults
    if source == "registry":
        stage.cluster.store.cut(stage.host(one))
    elif source is not None:
        faults.cut(stage.host(source), stage.host(one))
    else:
        faults.partition([stage.host(one)], [stage.host(arguments.word("another machine"))])
    arguments.finish()
    return NOTHING


@verb("isolate BROKER", "Cut a broker off from every other broker and the clients, but not from the registry.")
def _isolate(stage: Stage, arguments: Arguments) -> Sequence[str]:
    name = _name(arguments)
    others = [stage.host(other) for other in (*stage.names, CLIENT) if other != name]
    stage.cluster.world.fabric.faults.partition([stage.host(name)], others)
    return NOTHING


@verb("reset ONE OTHER", "Every connection between two machines is reset, and with it what was under way.")
def _reset(stage: Stage, arguments: Arguments) -> Sequence[str]:
    one, other = stage.host(arguments.word("a machine")), stage.host(arguments.word("another machine"))
    arguments.finish()
    count = stage.cluster.world.fabric.faults.reset(one, other)
    needs(count > 0, "there was no connection between them")
    return NOTHING


@verb("heal", "Mend all links and the way to the registry; connections go on after a retransmission.")
def _heal(stage: Stage, arguments: Arguments) -> Sequence[str]:
    arguments.finish()
    stage.cluster.world.fabric.faults.heal()
    stage.cluster.store.heal()
    return NOTHING


def _names(arguments: Arguments) -> tuple[str, ...]:
    names = arguments.rest("a broker")
    arguments.finish()
    return names


def _name(arguments: Arguments) -> str:
    name = arguments.word("a broker")
    arguments.finish()
    return name


def _configs(arguments: Arguments) -> dict[str, str]:
    configs = arguments.settings()
    for word, name in _TOPIC_WORDS.items():
        value = arguments.option(word)
        if value is not None:
            configs[name] = _BOOLEANS.get(value, value)
    return configs
