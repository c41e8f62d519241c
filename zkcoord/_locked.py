"""
`locked`: a function that runs under a lock named by its arguments.

Everything that is the same for threads and for asyncio is here: the key, the options, what "busy" leads to, the
signature. `_sync.decorated` and `_aio.decorated` have the wrappers themselves.
"""

import functools
import inspect
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Literal, Never, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, overload

from kazoo.client import KazooClient
from kazoo.security import ACL

from zkcoord._aio import decorated as aio_decorated
from zkcoord._aio.base import AsyncLock
from zkcoord._aio.locks import AsyncZkLock
from zkcoord._call import LockedCall
from zkcoord._core import template
from zkcoord._core.template import Key
from zkcoord._spec import timeout_s
from zkcoord._sync import decorated
from zkcoord._sync.base import Lock
from zkcoord._sync.locks import ZkLock
from zkcoord.coordinator import Coordinator
from zkcoord.errors import AcquireTimeoutError, ConfigError

P = ParamSpec("P")
R = TypeVar("R")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)

#: Longest label made from a function's name.
_MAX_LABEL = 200


class LockedOptions(TypedDict, total=False):
    """What `locked` hands on to the lock, and which one it makes."""

    timeout: float | None
    lock: Callable[..., Lock] | Callable[..., AsyncLock]
    client: Coordinator | KazooClient | None
    reentrant: bool
    owner: str | None
    label: str | None
    dialect: str
    acl: Sequence[ACL] | None
    max_hold: float | None
    on_lost: str


class Decorator(Protocol[V_co]):
    """What `locked` returns; a busy call returns a `V_co`."""

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Callable[P, Coroutine[Any, Any, R | V_co]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Callable[P, R | V_co]: ...
    def __call__(self, function: Callable[..., object], /) -> Callable[..., object]:
        """Decorate."""
        ...


class GrantDecorator(Protocol[V_co]):
    """The same for a function that gets its grant; its callers' arguments go unchecked."""

    @overload
    def __call__(
        self, function: Callable[..., Coroutine[Any, Any, R]], /
    ) -> Callable[..., Coroutine[Any, Any, R | V_co]]: ...
    @overload
    def __call__(self, function: Callable[..., R], /) -> Callable[..., R | V_co]: ...
    def __call__(self, function: Callable[..., object], /) -> Callable[..., object]:
        """Decorate."""
        ...


# fmt: off
@overload
def locked(key: Key, *, on_busy: Literal["raise"] = "raise", **options: Unpack[LockedOptions]) -> Decorator[Never]: ...
@overload
def locked(key: Key, *, on_busy: Literal["skip"], **options: Unpack[LockedOptions]) -> Decorator[None]: ...
@overload
def locked(
    key: Key, *, on_busy: Callable[[AcquireTimeoutError], V], **options: Unpack[LockedOptions]
) -> Decorator[V]: ...
@overload
def locked(key: Key, *, on_busy: V, **options: Unpack[LockedOptions]) -> Decorator[V]: ...
@overload
def locked(
    key: Key, *, on_busy: Literal["raise"] = "raise", grant: str, **options: Unpack[LockedOptions]
) -> GrantDecorator[Never]: ...
@overload
def locked(
    key: Key, *, on_busy: Literal["skip"], grant: str, **options: Unpack[LockedOptions]
) -> GrantDecorator[None]: ...
@overload
def locked(
    key: Key, *, on_busy: Callable[[AcquireTimeoutError], V], grant: str, **options: Unpack[LockedOptions]
) -> GrantDecorator[V]: ...
@overload
def locked(key: Key, *, on_busy: V, grant: str, **options: Unpack[LockedOptions]) -> GrantDecorator[V]: ...
# fmt: on
def locked(
    key: Key,
    *,
    on_busy: object = "raise",
    grant: str | None = None,
    **options: Unpack[LockedOptions],
) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """
    Run a function under a lock that the arguments of the call name: ``@locked("/locks/order/{order_id}")``.

    Works on functions, methods, static and class methods (on either side of ``@staticmethod``) and generators, which
    hold the lock from the first ``next()`` until they are exhausted, closed or thrown out of; and on coroutine
    functions and async generators, with the locks for asyncio. The signature stays, and so do the function's own
    exceptions.

    Args:
        key: a template with the names of parameters, ``{self.shop}`` for an attribute of a method's object; each value
            is made one piece of the path by `zkcoord.quote`. Or a function that takes the call's arguments and returns
            the path; it quotes for itself.
        on_busy: what a call does when somebody else has the lock for longer than `timeout`. "raise": it raises
            `AcquireTimeoutError`. "skip": it returns None. A function (under asyncio also a coroutine function): it
            returns what that returns for the error. Any other value that is no text: it returns that. The body does not
            run, and a generator yields nothing. That no server answers is always an error.
        grant: name of a keyword-only parameter of the function that gets the `Grant`, for its fencing token and its
            checks. Callers do not see it.
        **options: `timeout` in seconds (None = for ever, 0 = one try), `client`, `reentrant`, `owner`, `dialect`,
            `acl`, `max_hold` as for `ZkLock`, and `on_lost` as for `AsyncZkLock`; `label`, by default the function's
            name; `lock`, which makes the lock and is called as ``lock(path, timeout=…, label=…, …)``, by default
            `ZkLock`, for asyncio `AsyncZkLock`.

    Raises:
        ConfigError: when decorating: the template names what the function does not have, or an option is wrong.

    The decorated function raises what `acquire` raises, `GrantLostError` when the lock was lost while it ran and it did
    not fail itself, and `ConfigError` when a value has no text for the key.
    """
    make: Callable[..., object] | None = options.pop("lock", None)
    if make is not None and not callable(make):
        raise ConfigError(f"lock must be a lock class or a function that makes one, not {make!r:.80}")
    label = options.pop("label", None)
    timeout = timeout_s("timeout", options.get("timeout"))
    busy = _busy(on_busy, timeout)

    def decorate(function: Callable[..., object]) -> Callable[..., object]:
        if isinstance(function, staticmethod | classmethod):
            return type(function)(decorate(function.__func__))
        _check_function(function)
        name = getattr(function, "__qualname__", repr(function))
        label_ = f"{getattr(function, '__module__', '?')}.{name}"[:_MAX_LABEL] if label is None else label
        whole = inspect.signature(function)
        shown = _without(whole, grant, name)
        is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
        default: Callable[..., object] = AsyncZkLock if is_async else ZkLock
        maker = make or default
        make_lock: Callable[[str], Any] = functools.partial(
            maker, **{**options, "timeout": timeout, "label": label_}
        )
        front_end = aio_decorated if is_async else decorated
        _check_lock(maker, make_lock, front_end.check_lock)
        call = LockedCall(_path_of(key, shown, name), make_lock, busy, grant)
        return _finish(front_end.wrap(function, call), shown, grant)

    return decorate


def _busy(on_busy: object, timeout: float | None) -> Callable[[AcquireTimeoutError], object] | None:
    """Return what a busy call does; None: it raises."""
    if isinstance(on_busy, str) and on_busy == "raise":
        return None
    if isinstance(on_busy, str) and on_busy != "skip":
        raise ConfigError(
            f"on_busy must be 'raise', 'skip', a function or a value that is no text, not {on_busy!r:.80}; to return a"
            " text, give on_busy=lambda error: 'text'"
        )
    if timeout is None:
        raise ConfigError(
            "on_busy never happens while timeout=None waits for ever: give timeout=0 or seconds"
        )
    if callable(on_busy):
        return on_busy
    value = None if on_busy == "skip" else on_busy
    return lambda error: value


def _check_function(function: object) -> None:
    if isinstance(function, property):
        raise ConfigError("put @locked below @property, next to the function")
    if isinstance(function, type) or not callable(function):
        raise ConfigError(f"@locked decorates functions and methods, not {function!r:.80}")


def _check_lock(
    make: Callable[..., object], make_lock: Callable[[str], object], check: Callable[[object], object]
) -> None:
    """Find wrong options of a lock class now; what another function does with them shows when it is called."""
    if not isinstance(make, type | functools.partial):
        return
    try:
        lock = make_lock("/check")
    except TypeError as error:
        raise ConfigError(f"@locked cannot make its lock: {error}") from error
    check(lock)


def _without(signature: inspect.Signature, grant: str | None, name: str) -> inspect.Signature:
    """Return the signature as callers see it."""
    if grant is None:
        return signature
    found = signature.parameters.get(grant)
    if found is None or found.kind is not found.KEYWORD_ONLY:
        raise ConfigError(
            f"grant={grant!r}: {name}() needs a keyword-only parameter of that name: (…, *, {grant})"
        )
    return signature.replace(
        parameters=[parameter for parameter in signature.parameters.values() if parameter is not found]
    )


def _path_of(key: object, signature: inspect.Signature, name: str) -> Callable[..., str]:
    """Return what makes the path from a call's arguments."""
    if callable(key):
        return key
    if not isinstance(key, str):
        raise ConfigError(f"key must be a template or a function, not {key!r:.80}")
    filled = template.parse(key, signature, name)

    def path_of(*arguments: object, **keywords: object) -> str:
        try:
            bound = signature.bind(*arguments, **keywords)
        except TypeError as error:
            raise TypeError(f"{name}() {error}") from None
        bound.apply_defaults()
        return filled.fill(bound.arguments)

    constant = filled.fill({}) if filled.is_constant else ""
    return (lambda *arguments, **keywords: constant) if filled.is_constant else path_of


def _finish(
    wrapper: Callable[..., object], shown: inspect.Signature, grant: str | None
) -> Callable[..., object]:
    if grant is not None:
        wrapper.__signature__ = shown  # type: ignore[attr-defined]  # what inspect.signature looks at
        kept = {known: hint for known, hint in wrapper.__annotations__.items() if known != grant}
        wrapper.__annotations__ = kept
    return wrapper
