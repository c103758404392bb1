"""A transaction that waits for its outcome, as one process writes it down and another finishes it."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerEpoch, ProducerId, ProducerIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTransaction:
    """Who wrote the transaction. `str()` of it is one line of text, which `parse` reads; an empty transaction has no producer."""

    transactional_id: str
    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH

    @classmethod
    def parse(cls, text: str) -> PreparedTransaction:
        """Read what `str()` wrote; raises ValueError."""
        producer_id, first, rest = text.partition(":")
        producer_epoch, second, transactional_id = rest.partition(":")
        if not (first and second and transactional_id):
            raise ValueError(f"{text!r} is no prepared transaction: it is written as id:epoch:transactional.id")
        return cls(transactional_id=transactional_id, producer_id=int(producer_id), producer_epoch=int(producer_epoch))

    @property
    def producer(self) -> ProducerIdentity | None:
        """Under whose name its records are; None where it has none."""
        if self.producer_id == NO_PRODUCER_ID:
            return None
        return ProducerIdentity(self.producer_id, self.producer_epoch)

    def __str__(self) -> str:
        return f"{self.producer_id}:{self.producer_epoch}:{self.transactional_id}"
