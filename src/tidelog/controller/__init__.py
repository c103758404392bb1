"""The controller: brokers, topics, elections, placement. It decides; `service.py` does the waiting."""

from tidelog.controller.alteration import ConfigAlteration, ConfigChange, ConfigEntity, ConfigOperation
from tidelog.controller.controller import (
    AlterConfigs,
    Command,
    Controller,
    CreatePartitions,
    CreateTopics,
    Decision,
    DeleteTopics,
    ElectLeaders,
    Write,
)
from tidelog.controller.growth import MorePartitions
from tidelog.controller.image import ALL_BROKERS, NO_BROKER, BrokerImage, ClusterImage, PartitionState, TopicImage
from tidelog.controller.layout import MalformedNode
from tidelog.controller.placement import Assignment, place_replicas
from tidelog.controller.topics import NewTopic, TopicResult, check_name

__all__ = [
    "ALL_BROKERS",
    "NO_BROKER",
    "AlterConfigs",
    "Assignment",
    "BrokerImage",
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
    "ElectLeaders",
    "MalformedNode",
    "MorePartitions",
    "NewTopic",
    "PartitionState",
    "TopicImage",
    "TopicResult",
    "Write",
    "check_name",
    "place_replicas",
]
