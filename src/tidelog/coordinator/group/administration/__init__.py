"""What operators ask: which groups there are, who is in them, and that one be forgotten."""

from tidelog.coordinator.group.administration.area import AdminArea

__all__ = ["AdminArea"]
