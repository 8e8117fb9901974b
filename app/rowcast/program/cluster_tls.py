"""TLS between the nodes of a cluster, from their certificates."""

import ssl

from rowcast.core.errors import Code, Error
from rowcast.program.settings.cluster import Cluster


def contexts(cluster: Cluster) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    """Return the TLS of connections that come, and of those that go; None without certificates.

    Raises INVALID where a file of them cannot be used.
    """
    files = cluster.tls
    if files.certificate is None:
        return None, None
    try:
        found = []
        for purpose in (ssl.Purpose.CLIENT_AUTH, ssl.Purpose.SERVER_AUTH):
            context = ssl.create_default_context(purpose, cafile=files.certificate_authority)
            context.load_cert_chain(files.certificate, files.private_key)
            context.verify_mode = ssl.CERT_REQUIRED
            found.append(context)
    except (OSError, ssl.SSLError) as error:
        raise Error(
            Code.INVALID, f"a file of cluster.tls cannot be used ({error}); see the three of them"
        ) from error
    return found[0], found[1]
