"""
Options that commands share. They stand before or after a command's name; the later one counts.

Each has an environment variable, which the program itself reads, once: what is said on the command line wins. A
command's own options have variables named after the command (``ZKCOORD_RUN_WAIT``), which click makes.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click

#: Where a ZooKeeper listens when nobody configured anything.
DEFAULT_HOSTS = "127.0.0.1:2181"

#: What `--output` takes.
OUTPUTS = ("table", "plain", "json")

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass
class Settings:
    """
    What holds for every command.

    Attributes:
        hosts: as kazoo takes it.
        is_given: whether anybody said so, by option or environment.
        timeout: seconds for a whole command, connecting included.
        session_timeout: seconds asked of the server; None = the command's own choice.
        output: one of `OUTPUTS`; None = a table on a terminal, plain lines elsewhere.
        auth: pairs of scheme and credential.
        tls, ca, certfile, keyfile, keyfile_password, verify_certs, check_hostname: as `Coordinator` takes them.
    """

    hosts: str = DEFAULT_HOSTS
    is_given: bool = False
    timeout: float = 10.0
    session_timeout: float | None = None
    output: str | None = None
    auth: tuple[tuple[str, str], ...] = ()
    tls: bool = False
    ca: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    keyfile_password: str | None = None
    verify_certs: bool = True
    check_hostname: bool = True

    @property
    def is_json(self) -> bool:
        """Whether programs read the output."""
        return self.output == "json"

    def security(self) -> dict[str, Any]:
        """Return the keyword arguments for credentials and TLS, as `Coordinator` takes them."""
        names = ("tls", "ca", "certfile", "keyfile", "keyfile_password", "verify_certs", "check_hostname")
        return {"auth": self.auth, **{name: getattr(self, name) for name in names}}


_UNITS = (("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86400.0))


def duration(text: str) -> float:
    """Read seconds: 90, 1.5, or with a unit: 500ms, 90s, 15m, 2h, 1d. For click's ``type=``."""
    number = _seconds(text)
    if not (math.isfinite(number) and number >= 0):
        raise click.BadParameter(f"{text!r} is not a number of seconds of at least 0 (500ms, 90s, 15m, 2h)")
    return number


def positive_duration(text: str) -> float:
    """Read a duration above 0."""
    number = _seconds(text)
    if not (math.isfinite(number) and number > 0):
        raise click.BadParameter(f"{text!r} is not a number of seconds above 0 (500ms, 90s, 15m, 2h)")
    return number


def _seconds(value: object) -> float:
    text = str(value).strip()
    unit, scale = next(((unit, scale) for unit, scale in _UNITS if text.endswith(unit)), ("", 1.0))
    try:
        return float(text.removesuffix(unit)) * scale
    except ValueError:
        return math.nan


def _store(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Keep what was given; an option that was not is None and leaves an earlier one alone."""
    if value is None or value == ():
        return
    settings = context.ensure_object(Settings)
    name = parameter.name or ""
    if name == "hosts":
        settings.is_given = True
    elif name == "as_json":
        name, value = "output", "json" if value else settings.output
    elif name == "auth":
        value = tuple(_auth(context, parameter, text) for text in value)
    setattr(settings, name, value)


def _auth(context: click.Context, parameter: click.Parameter, text: str) -> tuple[str, str]:
    scheme, colon, credential = text.partition(":")
    if not (scheme and colon and credential):
        # The message must not show what may be a password.
        raise click.BadParameter("write SCHEME:CREDENTIAL, as in digest:user:password", context, parameter)
    return scheme, credential


#: Flags of the shared options, their variable, and what click needs to know.
_HOSTS = (
    ("--hosts",),
    "ZKCOORD_HOSTS",
    {"metavar": "HOST:PORT,…[/CHROOT]", "help": f"The ZooKeeper ensemble.  [default: {DEFAULT_HOSTS}]"},
)
_TIMEOUT = (
    ("--timeout",),
    "ZKCOORD_TIMEOUT",
    {
        "type": positive_duration,
        "metavar": "SECONDS",
        "help": "For connecting and all answers.  [default: 10]",
    },
)
_CONNECTION = (
    (
        ("--session-timeout",),
        "ZKCOORD_SESSION_TIMEOUT",
        {
            "type": positive_duration,
            "metavar": "SECONDS",
            "help": "Asked of the server.  [default: 10; 15 for run, elect and lock-hold]",
        },
    ),
    (
        ("--auth",),
        "ZKCOORD_AUTH",
        {
            "multiple": True,
            "metavar": "SCHEME:CREDENTIAL",
            "help": "As digest:user:password. Others see a command line: the variable is safer.",
        },
    ),
    (("--tls/--no-tls",), "ZKCOORD_TLS", {"help": "Encrypt the connection."}),
    (("--ca",), "ZKCOORD_CA", {"metavar": "FILE", "help": "Certificates to trust, PEM."}),
    (("--certfile",), "ZKCOORD_CERTFILE", {"metavar": "FILE", "help": "Our certificate, PEM."}),
    (("--keyfile",), "ZKCOORD_KEYFILE", {"metavar": "FILE", "help": "Its key, PEM."}),
    (
        ("--keyfile-password",),
        "ZKCOORD_KEYFILE_PASSWORD",
        {"metavar": "TEXT", "help": "The key's password; rather by the variable."},
    ),
    (
        ("--verify-certs/--no-verify-certs",),
        "ZKCOORD_VERIFY_CERTS",
        {"help": "Check the servers' certificates.  [default: yes]"},
    ),
    (
        ("--check-hostname/--no-check-hostname",),
        "ZKCOORD_CHECK_HOSTNAME",
        {"help": "Check the names in them.  [default: yes]"},
    ),
)
_OUTPUT = (
    (
        ("-o", "--output"),
        "ZKCOORD_OUTPUT",
        {
            "type": click.Choice(OUTPUTS),
            "help": "A table, lines of fields with tabs between, or JSON."
            "  [default: table on a terminal, else plain]",
        },
    ),
    (("--json", "as_json"), "ZKCOORD_JSON", {"is_flag": True, "help": "Short for -o json."}),
)


def _options(*groups: Sequence[Any]) -> Decorator:
    table = [entry for group in groups for entry in group]

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for flags, variable, details in reversed(table):
            details = dict(details)
            details["help"] = f"{details['help']}  [env var: {variable}]"
            details.setdefault("default", None)
            command = click.option(
                *flags, expose_value=False, callback=_store, allow_from_autoenv=False, **details
            )(command)
        return command

    return add


#: For commands that connect, and show nothing by `render`.
connection_options = _options((_HOSTS, _TIMEOUT), _CONNECTION)

#: For commands that show a view.
common_options = _options((_HOSTS, _TIMEOUT), _CONNECTION, _OUTPUT)

#: For the demo, which makes its own sessions.
demo_options = _options((_HOSTS, _TIMEOUT))


def read_environment(command: click.Command) -> None:
    """Let a command's shared options read their variables, and its own ones show theirs in the help."""
    variables = {
        name.split("/")[0]: variable
        for flags, variable, _ in (_HOSTS, _TIMEOUT, *_CONNECTION, *_OUTPUT)
        for name in flags
        if name.startswith("--")
    }
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.expose_value:
            parameter.envvar = next((variables[name] for name in parameter.opts if name in variables), None)


def show_environment(command: click.Command) -> None:
    """Show the environment variable of each of a command's own options in its help."""
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.expose_value:
            parameter.show_envvar = True
