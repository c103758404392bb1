"""The controller: brokers, topics, elections, placement. It decides; `service.py` does the waiting."""

from tidelog.controller.alteration import ConfigAlteration, ConfigChange, ConfigEntity, ConfigOperation
from tidelog.controller.channels import ClusterChannels, ReplicaEnd
from tidelog.controller.commands import (
    ANY_EPOCH,
    AlterConfigs,
    AlterPartition,
    BeginShutdown,
    Change,
    Command,
    CreatePartitions,
    CreateTopics,
    Decision,
    DeleteTopics,
    ElectGreatest,
    ElectionType,
    ElectLeaders,
    ForgetMinimums,
    IsrChange,
    LoseReplicas,
    Reassign,
    Reconsider,
    SeeBrokers,
    Write,
)
from tidelog.controller.controller import Controller
from tidelog.controller.difference import TOPIC_IS_DELETED, Role, StoppedReplica, Told, difference
from tidelog.controller.growth import MorePartitions
from tidelog.controller.image import (
    ALL_BROKERS,
    NO_BROKER,
    BrokerEpoch,
    BrokerImage,
    ClusterImage,
    PartitionState,
    TopicImage,
    partitions_of,
)
from tidelog.controller.layout import MalformedNode
from tidelog.controller.placement import Assignment, place_replicas
from tidelog.controller.reassignment import Reassignment
from tidelog.controller.topics import NewTopic, TopicResult, check_name

__all__ = [
    "ALL_BROKERS",
    "ANY_EPOCH",
    "NO_BROKER",
    "TOPIC_IS_DELETED",
    "AlterConfigs",
    "AlterPartition",
    "Assignment",
    "BeginShutdown",
    "BrokerEpoch",
    "BrokerImage",
    "Change",
    "ClusterChannels",
    "ClusterImage",
    "Command",
    "ConfigAlteration",
    "ConfigChange",
    "ConfigEntity",
    "ConfigOperation",
    "Controller",
    "CreatePartitions",
    "CreateTopics",
    "Decision",
    "DeleteTopics",
    "ElectGreatest",
    "ElectLeaders",
    "ElectionType",
    "ForgetMinimums",
    "IsrChange",
    "LoseReplicas",
    "MalformedNode",
    "MorePartitions",
    "NewTopic",
    "PartitionState",
    "Reassign",
    "Reassignment",
    "Reconsider",
    "ReplicaEnd",
    "Role",
    "SeeBrokers",
    "StoppedReplica",
    "Told",
    "TopicImage",
    "TopicResult",
    "Write",
    "check_name",
    "difference",
    "partitions_of",
    "place_replicas",
]
