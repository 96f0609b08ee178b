"""The HTTP service that promote and rollback watch: that of an option, or of the environment."""

import os

from pipelines.lifecycle.service_watch import Service


def watched(address: str = "") -> Service | None:
    """The service at this address, else at that of BERTLINE_SERVICE, else None. Raises UsageError for a wrong one."""
    if not (address := address or os.environ.get("BERTLINE_SERVICE", "")):
        return None
    service = Service(address, os.environ.get("BERTLINE_SERVICE_KEY", ""))
    service.require()
    return service
