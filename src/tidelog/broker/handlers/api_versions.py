"""ApiVersions, versions 0 to 4.

Behaviour: tells exactly what is served, read from the one API table; of what only brokers may ask, only where brokers come in. A version
we do not know is answered in the encoding of version 0 with UNSUPPORTED_VERSION and the same list, so that the client can choose again
(KIP-511).

Two features: `group.version`, whose level 1 says that groups of the consumer protocol (KIP-848) are served, is finalized from the start,
since a cluster has no brokers without it. The level of `transaction.version` (KIP-890) is a setting, `tidelog.transaction.version`; 0 is not
announced.

v1: throttle time.  v3: flexible, client software name and version (KIP-511), features (KIP-584).  v4: features with minimum 0.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from tidelog.broker.node import Node
from tidelog.model import ErrorCode
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey, advertised_versions
from tidelog.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

API = ApiKey.API_VERSIONS

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?", re.ASCII)
_SUPPORTED: Final = (
    SupportedFeatureKey(name="group.version", min_version=0, max_version=1),
    SupportedFeatureKey(name="transaction.version", min_version=0, max_version=2),
)
_FINALIZED_EPOCH: Final = 0
_MINIMUM_OF_ZERO_SINCE: Final = 4


def handle(node: Node, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Advertise the table; refuse a client software name that would be trouble in logs and metrics."""
    is_inter_broker = node.is_inter_broker(context.listener)
    if context.version >= 3:
        for text in (request.client_software_name, request.client_software_version):
            if not _SOFTWARE.fullmatch(text):
                return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=_versions(is_inter_broker))
    has_features = context.version >= _MINIMUM_OF_ZERO_SINCE
    return _answer(is_inter_broker, has_features, node.config.transaction_version)


@cache
def _answer(is_inter_broker: bool, has_features: bool, transaction_version: int) -> ApiVersionsResponse:  # noqa: FBT001
    """Each connection begins with this question, and there are few answers to it."""
    return ApiVersionsResponse(
        error_code=ErrorCode.NONE,
        api_keys=_versions(is_inter_broker),
        supported_features=_SUPPORTED if has_features else (),
        finalized_features=_finalized(transaction_version),
        finalized_features_epoch=_FINALIZED_EPOCH,
    )


@cache
def _versions(is_inter_broker: bool) -> tuple[ApiVersion, ...]:  # noqa: FBT001
    return advertised_versions(with_broker_only=is_inter_broker)


def _finalized(transaction_version: int) -> tuple[FinalizedFeatureKey, ...]:
    levels = {"group.version": 1, "transaction.version": transaction_version}
    return tuple(
        FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
        for name, level in levels.items()
        if level
    )
