"""Find out if anything listens at an address, before work that would be in vain."""

import socket
from urllib.parse import urlsplit

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.endpoints.http_client import check_url, proxy_variable, public_url

CONNECT_S = 1.5
"""Seconds that a connection may take; a host that needs longer is left to the first request."""
_PORTS = {"http": 80, "https": 443}


def require_listening(url: str, setting: str) -> None:
    """Refuse an address at which nothing listens, without sending a request.

    An address that is reached through a proxy is not tried.

    Args:
        url: the address of a service.
        setting: the option or key that names it, for messages.

    Raises:
        UserError: it is not an HTTP address.
        InfrastructureError: the host does not exist, or refuses the connection.
    """
    check_url(url, setting)
    if proxy_variable(url) is not None:
        return
    parts = urlsplit(url)
    place = (parts.hostname or "", parts.port or _PORTS[parts.scheme])
    try:
        socket.create_connection(place, CONNECT_S).close()
    except TimeoutError:
        return
    except OSError as error:
        raise InfrastructureError(
            f"{setting}={public_url(url)}: nothing listens there ({error.strerror or error}): "
            "start the server, or correct the address"
        ) from error
