"""What all requests to the controller have in common: a turn in the office, and brokers that should hear of the outcome."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from tidelog.config import BrokerConfig
from tidelog.controller.channels import ClusterChannels
from tidelog.controller.controller import Controller
from tidelog.controller.image import ClusterImage
from tidelog.controller.membership import Membership
from tidelog.controller.office import Office
from tidelog.model import ApiError, ErrorCode
from tidelog.runtime import Randomness
from tidelog.runtime.logs import fields

logger = logging.getLogger(__name__)

T = TypeVar("T")

TOLD_WITHIN_MS: Final = 5_000  # how long the answer to a change waits for brokers to hear of it


class ControllerRequests:
    """The controller of this broker, for whoever asks it something."""

    def __init__(
        self,
        config: BrokerConfig,
        randomness: Randomness,
        channels: ClusterChannels,
        membership: Membership,
        office: Office,
    ) -> None:
        self._config = config
        self._randomness = randomness
        self._channels = channels
        self._membership = membership
        self._office = office
        self._is_started = False

    async def _controller(self) -> Controller:
        """The controller, loaded. Raises ApiError NOT_CONTROLLER, and what loading raises."""
        if not self._is_started or self._membership.cluster_id is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "the controller has not started")
        return await self._office.load(self._membership.cluster_id)

    async def _tell(self, image: ClusterImage | None, timeout_ms: float = TOLD_WITHIN_MS) -> None:
        if image is not None and not await self._channels.told(image, timeout_ms=min(timeout_ms, TOLD_WITHIN_MS)):
            logger.info("not every broker has heard of a change in time", extra=fields(timeout_ms=timeout_ms))


def slices(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items in pieces, between which others run."""
    return (items[start : start + size] for start in range(0, len(items), size))
