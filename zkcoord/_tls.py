"""
TLS options, checked when a coordinator is made.

kazoo looks at them on its connection thread only, for each connection anew, and what is wrong there looks like a server
that does not answer. So the same calls are made here once, with the files that are named.
"""

import ssl

from zkcoord.errors import ConfigError


def check_tls(
    *,
    tls: bool,
    ca: str | None,
    certfile: str | None,
    keyfile: str | None,
    keyfile_password: str | None,
    verify_certs: bool,
    check_hostname: bool,
) -> None:
    """
    Read the files that the options name.

    Raises:
        ConfigError: a file is missing or no such PEM file, or the options contradict each other.
    """
    if not tls:
        given = [name for name, value in (("ca", ca), ("certfile", certfile), ("keyfile", keyfile)) if value]
        if given:
            raise ConfigError(
                f"{given[0]} is given, but the connection would be plain: give tls=True as well"
            )
        return
    if check_hostname and not verify_certs:
        raise ConfigError(
            "verify_certs=False needs check_hostname=False: a host name in an unverified certificate says nothing"
        )
    if bool(certfile) != bool(keyfile):
        missing = "keyfile" if certfile else "certfile"
        raise ConfigError(f"{missing} is missing: give both; they may be the same file, if it has both")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca:
        _open("ca", ca)
        try:
            context.load_verify_locations(ca)
        except (OSError, ValueError) as error:
            raise ConfigError(f"ca={ca!r} is no PEM file of certificates: {error}") from error
    if certfile and keyfile:
        _open("certfile", certfile)
        _open("keyfile", keyfile)
        try:
            # Without a password OpenSSL would ask at the terminal.
            context.load_cert_chain(certfile, keyfile, keyfile_password or "")
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"certfile={certfile!r} and keyfile={keyfile!r} are no PEM files that belong together, or the"
                f" key needs another keyfile_password: {error}"
            ) from error


def _open(name: str, path: str) -> None:
    """Name the file that cannot be read: the ssl module does not."""
    try:
        with open(path, "rb") as file:
            file.read(1)
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"{name}={path!r} cannot be read: {error}") from error
