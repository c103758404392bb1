"""The controller: brokers, topics, elections, placement. It decides; `service.py` does the waiting."""

from tidelog.controller.controller import (
    Command,
    Controller,
    CreateTopics,
    Decision,
    DeleteTopics,
    ElectLeaders,
    Write,
)
from tidelog.controller.image import NO_BROKER, BrokerImage, ClusterImage, PartitionState, TopicImage
from tidelog.controller.layout import MalformedNode
from tidelog.controller.placement import Assignment, place_replicas
from tidelog.controller.topics import NewTopic, TopicResult, check_name

__all__ = [
    "NO_BROKER",
    "Assignment",
    "BrokerImage",
    "ClusterImage",
    "Command",
    "Controller",
    "CreateTopics",
    "Decision",
    "DeleteTopics",
    "ElectLeaders",
    "MalformedNode",
    "NewTopic",
    "PartitionState",
    "TopicImage",
    "TopicResult",
    "Write",
    "check_name",
    "place_replicas",
]
