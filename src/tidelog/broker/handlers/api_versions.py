"""ApiVersions, versions 0 to 4.

Behaviour: tells exactly what is served, read from the one API table; of what only brokers may ask, only where brokers come in. A version
we do not know is answered in the encoding of version 0 with UNSUPPORTED_VERSION and the same list, so that the client can choose again
(KIP-511).

v1: throttle time.  v3: flexible, client software name and version (KIP-511), features (KIP-584).  v4: features with minimum 0.
"""

from __future__ import annotations

import re
from typing import Final

from tidelog.broker.node import Node
from tidelog.model import ErrorCode
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey, advertised_versions
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

API = ApiKey.API_VERSIONS

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?", re.ASCII)


def handle(node: Node, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Advertise the table; refuse a client software name that would be trouble in logs and metrics."""
    versions = advertised_versions(with_broker_only=node.is_inter_broker(context.listener))
    if context.version >= 3:
        for text in (request.client_software_name, request.client_software_version):
            if not _SOFTWARE.fullmatch(text):
                return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=versions)
    return ApiVersionsResponse(error_code=ErrorCode.NONE, api_keys=versions)
