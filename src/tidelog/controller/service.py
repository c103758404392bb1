"""The shell around the controller, one per broker: membership, the contest for the office, and, in office, everybody's wishes.

`start` registers and contends once. `run` lives on: a session that ended is replaced and the broker registered again, an office that became
vacant is contended for, brokers that come and go are seen. A registry that is away changes nothing: all stays as it was last known.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.config import BrokerConfig, Listener
from tidelog.controller.channels import ClusterChannels
from tidelog.controller.image import BrokerEpoch
from tidelog.controller.membership import BrokerIdTaken as BrokerIdTaken
from tidelog.controller.membership import Membership, OnRegistered
from tidelog.controller.office import Office
from tidelog.controller.partition_requests import PartitionRequests
from tidelog.controller.presiding import Presiding
from tidelog.controller.producer_ids import allocate_block
from tidelog.controller.topic_requests import TopicRequests
from tidelog.model import NO_PRODUCER_ID, ApiError, BrokerId, ErrorCode, ProducerId
from tidelog.registry import Registry, RegistryError, RegistryUnavailable
from tidelog.runtime import Clock, Randomness


class ControllerService(TopicRequests, PartitionRequests):
    """The controller's side of one broker. What it can be asked stands in its bases; here is its life."""

    def __init__(
        self,
        config: BrokerConfig,
        registry: Registry,
        randomness: Randomness,
        clock: Clock,
        channels: ClusterChannels,
        *,
        on_registered: OnRegistered,
    ) -> None:
        membership = Membership(config, registry, randomness, clock, on_registered)
        office = Office(config, registry, randomness, clock, channels)
        super().__init__(config, randomness, channels, membership, office)
        self._registry = registry
        self._presiding = Presiding(config, registry, membership, office, channels, clock)

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self._office.is_held

    @property
    def unclean_elections(self) -> int:
        """How many leaders this broker has elected uncleanly since it was started."""
        return self._office.unclean_elections

    @property
    def controller_id(self) -> BrokerId:
        """Who was the controller when we last heard; NO_BROKER while nobody is known."""
        return self._office.controller_id

    @property
    def broker_epoch(self) -> BrokerEpoch:
        """The epoch of our registration; -1 while there is none."""
        return self._membership.broker_epoch

    async def prepare(self) -> str:
        """Open the session, lay out the tree where it is new, and return the cluster id; needed before logs can be opened."""
        return await self._membership.prepare()

    async def generate_broker_id(self) -> BrokerId:
        """A broker id nobody has, above those an operator may choose."""
        return await self._membership.generate_broker_id()

    async def last_registered_epoch(self) -> BrokerEpoch | None:
        """The epoch under which this broker id was last registered, if ever; read before `start`."""
        return await self._membership.last_registered_epoch()

    async def start(self, endpoints: Iterable[Listener] | None = None, *, is_intact: bool = True) -> None:
        """Register the broker at its advertised endpoints and contend for the office; whoever wins has loaded everything and published.

        Raises BrokerIdTaken, MalformedNode, RegistryUnavailable.
        """
        await self.prepare()
        told = self._config.advertised(self._config.listeners) if endpoints is None else tuple(endpoints)
        await self._membership.register(told, is_intact=is_intact)
        self._is_started = True
        await self._presiding.begin()

    async def run(self) -> None:
        """Stay a member, and the controller if that falls to us, until cancelled. Raises BrokerIdTaken if somebody took our place."""
        await self._presiding.run()

    async def stop(self) -> None:
        """End the session: the broker is no longer registered and no longer controller. `run` must have been cancelled."""
        async with self._office.exclusive():
            self._is_started = False
            self._office.resign("the broker stops")
            await self._registry.close()

    async def allocate_producer_ids(self, above: ProducerId = NO_PRODUCER_ID) -> range:
        """A block of producer ids that nobody else ever gets. Any broker may ask. Raises ApiError when none can be had now."""
        try:
            return await allocate_block(self._registry, self._config.broker_id, above)
        except (RegistryError, RegistryUnavailable) as error:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from error
