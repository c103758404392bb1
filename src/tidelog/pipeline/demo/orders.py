"""What the shop is told: orders from a seed, some of them late, some broken; and what must become of each.

An order is a function of the seed and its number, so the truth needs no storing: whoever counts makes the orders again. Event time runs
with the number, not with the clock: an outage makes orders wait, it does not make them late.
"""

from __future__ import annotations

import enum
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from tidelog.pipeline.demo.chance import Chance

ORDERS: Final = "shop.orders"
PRODUCTS: Final = "shop.products"
CLEANED: Final = "shop.cleaned"
REJECTED: Final = "shop.rejected"
REVENUE: Final = "shop.revenue"

CLEAN_QUERY: Final = "shop-clean"
REVENUE_QUERY: Final = "shop-revenue"

PATIENCE_S: Final = 2
"""An order that took longer than this from its customer to us is rejected as late: by its own two times, so whenever it is looked at."""
WINDOW_S: Final = 5
WATERMARK_S: Final = 10
"""How far behind the newest order a window stays open. More than PATIENCE_S: partitions are not read in step (docs/pipeline.md)."""
CLOSING_AFTER_S: Final = 3600
_PERMILLE: Final = 1000
_CUSTOMERS: Final = 200


class Reason(enum.StrEnum):
    """Why an order is rejected."""

    UNREADABLE = "unreadable"
    INCOMPLETE = "incomplete"
    QUANTITY = "quantity"
    UNKNOWN_PRODUCT = "unknown product"
    LATE = "late"


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """What the shop sells; prices are whole cents."""

    sku: str
    name: str
    category: str
    price_cents: int

    def to_json(self) -> bytes:
        """As the topic of products has it."""
        row = {"sku": self.sku, "name": self.name, "category": self.category, "price_cents": self.price_cents}
        return json.dumps(row).encode()


def _products() -> tuple[Product, ...]:
    offered = {
        "books": ("Atlas", 4200), "tea": ("Assam", 890), "bread": ("Rye", 340), "tools": ("Hammer", 1990), "toys": ("Kite", 1550),
    }  # fmt: skip
    return tuple(
        Product(
            sku=f"{category}-{grade}",
            name=f"{name} {grade}",
            category=category,
            price_cents=cents * grade,
        )
        for category, (name, cents) in offered.items()
        for grade in (1, 2, 3, 4)
    )


CATALOG: Final = _products()


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One record of the topic of orders, and what must come of it: a reason to reject it, or its part in the revenue."""

    key: bytes  # the order's id, also of one whose value nobody can read
    value: bytes
    placed_ms: int
    reason: Reason | None
    category: str = ""
    total_cents: int = 0

    @property
    def window(self) -> Window:
        """Where a clean order is counted."""
        return Window(start_ms=self.placed_ms // (WINDOW_S * 1000) * WINDOW_S * 1000, category=self.category)


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """What revenue is added up by."""

    start_ms: int
    category: str


@dataclass(frozen=True, slots=True)
class Revenue:
    """What was sold in a window."""

    orders: int
    cents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderStream:
    """All orders of a seed: number 0 is sent at `start_ms`, `per_second` of them a second."""

    seed: int
    start_ms: int
    per_second: int

    def order(self, number: int) -> Order:
        """The order of this number."""
        chance = Chance(self.seed, number)
        sent_ms = self.start_ms + number * 1000 // self.per_second
        product = CATALOG[chance.below(len(CATALOG))]
        quantity = 1 + chance.below(5)
        reason, delay_ms = _fate(chance)
        placed_ms = sent_ms - delay_ms
        content: dict[str, object] = {
            "customer": f"c-{chance.below(_CUSTOMERS):03}",
            "sku": product.sku,
            "quantity": quantity,
            "placed_at": iso(placed_ms),
            "sent_at": iso(sent_ms),
        }
        return Order(
            key=f"o-{number:09}".encode(),
            value=_spoilt(content, reason, chance),
            placed_ms=placed_ms,
            reason=reason,
            category="" if reason else product.category,
            total_cents=0 if reason else quantity * product.price_cents,
        )

    def closing(self, number: int) -> Order:
        """An order long after the others, which closes all their windows; it stands in a window of its own that stays open."""
        sent_ms = self.start_ms + number * 1000 // self.per_second + CLOSING_AFTER_S * 1000
        product = CATALOG[0]
        content = {
            "customer": "c-closing", "sku": product.sku, "quantity": 1, "placed_at": iso(sent_ms), "sent_at": iso(sent_ms),
        }  # fmt: skip
        return Order(
            key=f"o-{number:09}".encode(),
            value=json.dumps(content).encode(),
            placed_ms=sent_ms,
            reason=None,
            category=product.category,
            total_cents=product.price_cents,
        )

    def first(self, count: int) -> Iterator[Order]:
        """The first `count` orders."""
        return map(self.order, range(count))


def revenue_of(orders: Iterator[Order]) -> dict[Window, Revenue]:
    """What the pipeline must find, added up one by one."""
    counts: Counter[Window] = Counter()
    cents: Counter[Window] = Counter()
    for order in orders:
        if order.reason is None:
            counts[order.window] += 1
            cents[order.window] += order.total_cents
    return {window: Revenue(orders=count, cents=cents[window]) for window, count in counts.items()}


def iso(moment_ms: int) -> str:
    """A time as orders have it: 2026-01-02T03:04:05.678Z."""
    moment = datetime.fromtimestamp(moment_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _fate(chance: Chance) -> tuple[Reason | None, int]:
    """What is wrong with an order, if anything is, and how long it took to us: of 100, 15 late ones that count, 2 that do not, 4 broken."""
    draw = chance.below(_PERMILLE)
    delay_ms = chance.below(400)
    if draw < 40:
        return (Reason.UNREADABLE, Reason.INCOMPLETE, Reason.QUANTITY, Reason.UNKNOWN_PRODUCT)[draw // 10], delay_ms
    if draw < 60:
        return Reason.LATE, (PATIENCE_S + 28 + chance.below(90)) * 1000
    if draw < 210:
        return None, 500 + chance.below(PATIENCE_S * 1000 - 500)
    return None, delay_ms


def _spoilt(content: dict[str, object], reason: Reason | None, chance: Chance) -> bytes:
    """The value of an order, with the fault its fate asks for."""
    if reason is Reason.INCOMPLETE:
        del content[("customer", "sku", "quantity", "placed_at")[chance.below(4)]]
    elif reason is Reason.QUANTITY:
        content["quantity"] = -chance.below(3)
    elif reason is Reason.UNKNOWN_PRODUCT:
        content["sku"] = "snow-1"
    text = json.dumps(content)
    return text[: len(text) // 2 if reason is Reason.UNREADABLE else None].encode()
