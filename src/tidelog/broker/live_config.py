"""The settings of this broker as they hold now: what it was started with, and what was altered since."""

from __future__ import annotations

from tidelog.config import BrokerConfig, ConfigLayers
from tidelog.controller import ClusterImage


class LiveConfig:
    """Follows the cluster image; whoever keeps it sees every alteration, whoever keeps `current` sees none."""

    def __init__(self, static: BrokerConfig) -> None:
        self.layers = ConfigLayers(static=static)
        self.current = static

    def follow(self, image: ClusterImage) -> None:
        """Take over what the image says of this broker."""
        layers = image.layers_of(self.layers.static)
        if layers != self.layers:
            self.layers, self.current = layers, layers.merged()
