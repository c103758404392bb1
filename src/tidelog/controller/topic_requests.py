"""What is asked of the controller about topics and settings."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Sequence
from typing import Final

from tidelog.controller.alteration import ConfigAlteration
from tidelog.controller.commands import AlterConfigs, Command, CreatePartitions, CreateTopics, DeleteTopics
from tidelog.controller.controller import Controller
from tidelog.controller.growth import MorePartitions
from tidelog.controller.image import ClusterImage
from tidelog.controller.requests import ControllerRequests, slices
from tidelog.controller.topics import NewTopic, TopicResult, check_request
from tidelog.model import ApiError
from tidelog.runtime.logs import fields

logger = logging.getLogger(__name__)

ITEMS_PER_SLICE: Final = 20  # decided without letting others run


class TopicRequests(ControllerRequests):
    """Topics that come, grow and go, and settings."""

    async def create_topics(self, topics: Sequence[NewTopic], *, validate_only: bool = False) -> list[TopicResult]:
        """Make topics, each for itself; a result per topic, in order. They have leaders, and brokers have heard of it, when this returns.

        With `validate_only` the answer is the same, but for the topic ids, and nothing is made.
        """
        try:
            if validate_only:
                return await self._office.turn(self._validate(topics))
            results, image = await self._office.turn(self._create(topics))
        except ApiError as error:
            return [TopicResult(name=topic.name, error=error) for topic in topics]
        await self._tell(image)
        return results

    async def delete_topics(self, names: Sequence[str]) -> list[TopicResult]:
        """Delete topics, each for itself; a result per name, in order. They are gone from the image when this returns."""
        try:
            results, image = await self._office.turn(self._delete(names))
        except ApiError as error:
            return [TopicResult(name=name, error=error) for name in names]
        await self._tell(image)
        return results

    async def create_partitions(
        self, topics: Sequence[MorePartitions], *, validate_only: bool = False
    ) -> list[ApiError | None]:
        """Give topics more partitions, each for itself; per topic, in order, why not. They have leaders when this returns."""
        return await self._change([CreatePartitions(topics=topics)], len(topics), validate_only=validate_only)

    async def alter_configs(
        self, alterations: Sequence[ConfigAlteration], *, validate_only: bool = False
    ) -> list[ApiError | None]:
        """Change settings of topics and brokers, each resource for itself; per resource, in order, why not.

        They are in the registry, with a notification, when this returns; brokers heed them as they hear of them.
        """
        commands = [AlterConfigs(alterations=some) for some in slices(alterations, ITEMS_PER_SLICE)]
        return await self._change(commands, len(alterations), validate_only=validate_only)

    async def _validate(self, topics: Sequence[NewTopic]) -> list[TopicResult]:
        controller = await self._controller()
        check_request(topics, controller.config)
        trial = Controller(self._config, controller.image, self._randomness)
        results: list[TopicResult] = []
        for some in slices(topics, ITEMS_PER_SLICE):
            decision = trial.decide(CreateTopics(topics=some))
            trial.image = decision.image
            results += [dataclasses.replace(result, topic_id=None) for result in decision.results]
            await asyncio.sleep(0)
        return results

    async def _create(self, topics: Sequence[NewTopic]) -> tuple[list[TopicResult], ClusterImage | None]:
        controller = await self._controller()
        check_request(topics, controller.config)
        before = controller.image
        results: list[TopicResult] = []
        for some in slices(topics, ITEMS_PER_SLICE):
            results += (await self._office.perform(controller, CreateTopics(topics=some))).results
        image = self._office.done(controller)
        for result in results:
            if result.error is None:
                logger.info("topic created", extra=fields(topic=result.name, partition_count=result.partition_count))
        return results, None if image is before else image

    async def _delete(self, names: Sequence[str]) -> tuple[list[TopicResult], ClusterImage | None]:
        controller = await self._controller()
        results = (await self._office.perform(controller, DeleteTopics(names=names))).results
        gone = dict.fromkeys(result.name for result in results if result.error is None)
        image = self._office.done(controller)
        if gone:
            await self._office.delete_marked(gone)
        return list(results), image if gone else None

    async def _change(
        self, commands: Sequence[CreatePartitions | AlterConfigs], count: int, *, validate_only: bool
    ) -> list[ApiError | None]:
        try:
            if validate_only:
                return await self._office.turn(self._try(commands))
            errors, image = await self._office.turn(self._carry_out(commands))
        except ApiError as error:
            return [error] * count
        await self._tell(image)
        return errors

    async def _try(self, commands: Sequence[Command]) -> list[ApiError | None]:
        controller = await self._controller()
        trial = Controller(self._config, controller.image, self._randomness)
        errors: list[ApiError | None] = []
        for command in commands:
            decision = trial.decide(command)
            trial.image = decision.image
            errors += decision.errors
            await asyncio.sleep(0)
        return errors

    async def _carry_out(self, commands: Sequence[Command]) -> tuple[list[ApiError | None], ClusterImage | None]:
        controller = await self._controller()
        before = controller.image
        errors: list[ApiError | None] = []
        for command in commands:
            decision = await self._office.perform(controller, command)
            await self._office.reconsider(controller, decision.reconsider)
            errors += decision.errors
        if controller.image is not before:
            await self._office.expire_notifications()
        image = self._office.done(controller)
        return errors, None if image is before else image
