"""`locked` without a server: what it checks when decorating, the signature it keeps, which lock a call makes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from typing import Any, get_type_hints

import pytest

from zkcoord import (
    AcquireTimeoutError,
    AsyncZkLock,
    ConfigError,
    Grant,
    GrantLostError,
    ZkLock,
    ZkReadWriteLock,
    ZkSemaphore,
    locked,
)


class RecordedLock(ZkLock):
    """A lock that is granted, or not, without any server."""

    made: list[RecordedLock]
    refusal: AcquireTimeoutError | None = None

    def __init__(self, path: str, **options: Any) -> None:
        super().__init__(path, **options)
        self.is_held = False
        self.made.append(self)

    def __enter__(self) -> Grant:
        if self.refusal is not None:
            raise self.refusal
        self.is_held = True
        return f"grant of {self.path}"  # type: ignore[return-value]  # whoever gets it only prints it

    def __exit__(self, *error: object) -> None:
        self.is_held = False


@pytest.fixture
def lock() -> type[RecordedLock]:
    """A class of the test's own; the lock that is made for the check when decorating is not recorded as used."""

    class Recorded(RecordedLock):
        made = []  # noqa: RUF012  # one list for each test

    return Recorded


BUSY = AcquireTimeoutError("/locks/a", 0.1, 1, "somebody")
NO_SERVER = AcquireTimeoutError("/locks/a", 0.1)


# --- the lock of a call


def test_arguments_name_the_lock_however_they_are_given(lock: type[RecordedLock]) -> None:
    @locked("/locks/{region}/{order_id}", lock=lock)
    def ship(order_id: int, region: str = "eu") -> tuple[int, str]:
        assert lock.made[-1].is_held
        return order_id, region

    assert [(1, "eu"), (2, "us"), (3, "us")] == [ship(1), ship(2, "us"), ship(region="us", order_id=3)]
    assert ["/locks/eu/1", "/locks/us/2", "/locks/us/3"] == [made.path for made in lock.made[1:]]
    assert not any(made.is_held for made in lock.made)


def test_method_static_and_class_method_in_either_order(lock: type[RecordedLock]) -> None:
    class Shop:
        def __init__(self, name: str) -> None:
            self.name = name

        @locked("/locks/{self.name}/{order}", lock=lock)
        def ship(self, order: int) -> str:
            return f"{self.name} {order}"

        @staticmethod
        @locked("/locks/{order}", lock=lock)
        def inner_static(order: int) -> int:
            return order

        @locked("/locks/{order}", lock=lock)
        @staticmethod
        def outer_static(order: int) -> int:
            return order

        @classmethod
        @locked("/locks/{cls.__name__}", lock=lock)
        def inner_class(cls) -> type:
            return cls

        @locked("/locks/{cls.__name__}", lock=lock)  # type: ignore[arg-type]
        @classmethod
        def outer_class(cls) -> type:
            return cls

    lock.made.clear()  # those of the checks
    shop = Shop("main")
    assert ("main 1", 2, 3, 4, Shop, Shop) == (
        shop.ship(1),
        Shop.inner_static(2),
        Shop.outer_static(3),
        shop.outer_static(4),
        Shop.inner_class(),
        shop.outer_class(),
    )
    assert ["/locks/main/1", "/locks/2", "/locks/3", "/locks/4", "/locks/Shop", "/locks/Shop"] == [
        made.path for made in lock.made
    ]


def test_callable_key_gets_the_arguments(lock: type[RecordedLock]) -> None:
    @locked(lambda first, *, second: f"/locks/{first + second}", lock=lock)
    def add(first: int, *, second: int) -> int:
        return first + second

    assert 3 == add(1, second=2)
    assert "/locks/3" == lock.made[-1].path


def test_callable_key_that_returns_no_path_is_refused(lock: type[RecordedLock]) -> None:
    @locked(lambda: None, lock=lock)  # type: ignore[arg-type, return-value]
    def run() -> None:
        raise AssertionError("not under the lock")

    with pytest.raises(ConfigError, match="path must be str, not NoneType"):
        run()


def test_options_and_a_label_reach_the_lock(lock: type[RecordedLock]) -> None:
    @locked("/locks/a", lock=lock, timeout=0.25, max_hold=0.5, owner="job", dialect="kazoo")
    def run() -> None: ...

    @locked("/locks/a", lock=lock, label="mine")
    def other() -> None: ...

    run()
    other()
    spec, other_spec = lock.made[-2]._spec, lock.made[-1]._spec
    assert (0.25, 0.5, "job", "kazoo") == (spec.timeout_s, spec.max_hold_s, spec.owner, spec.rule.dialect)
    assert f"{__name__}.test_options_and_a_label_reach_the_lock.<locals>.run" == spec.label
    assert "mine" == other_spec.label


# --- what stays as it was


def test_signature_name_and_docs_stay(lock: type[RecordedLock]) -> None:
    def ship(order_id: int, *, region: str = "eu") -> str:
        """Ship it."""
        return f"{order_id} {region}"

    decorated = locked("/locks/{order_id}", lock=lock)(ship)

    assert inspect.signature(ship) == inspect.signature(decorated)
    assert ("ship", "Ship it.", ship) == (
        decorated.__name__,
        decorated.__doc__,
        inspect.unwrap(decorated),
    )
    assert not inspect.isgeneratorfunction(decorated)


@pytest.mark.parametrize(
    "error",
    [ValueError("own"), BUSY, GrantLostError("/locks/b", 1, "expired"), KeyboardInterrupt()],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("on_busy", ["raise", "skip"])
def test_own_error_propagates_as_it_is(lock: type[RecordedLock], error: BaseException, on_busy: Any) -> None:
    @locked("/locks/a", lock=lock, timeout=1, on_busy=on_busy)
    def run() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        run()
    assert error is caught.value
    assert not lock.made[-1].is_held


def test_wrong_arguments_are_a_type_error_that_names_the_function(lock: type[RecordedLock]) -> None:
    @locked("/locks/{order_id}", lock=lock)
    def ship(order_id: int) -> None: ...

    with pytest.raises(TypeError, match=r"ship\(\) missing a required argument: 'order_id'"):
        ship()  # type: ignore[call-arg]
    assert 1 == len(lock.made)


# --- busy


@pytest.mark.parametrize(
    ("on_busy", "expected"),
    [
        ("skip", None),
        (False, False),
        (0, 0),
        ((), ()),
        (lambda error: "raise", "raise"),
        (lambda error: error.position, 1),
    ],
)
def test_busy_call_returns_what_was_asked_for(
    lock: type[RecordedLock], on_busy: Any, expected: object
) -> None:
    @locked("/locks/a", lock=lock, timeout=0, on_busy=on_busy)
    def run() -> str:
        raise AssertionError("the body ran without the lock")

    @locked("/locks/a", lock=lock, timeout=0, on_busy=on_busy)
    def numbers() -> Iterator[int]:
        yield 1
        raise AssertionError("the body ran without the lock")

    lock.refusal = BUSY
    assert expected == run()
    generator: Any = numbers()
    with pytest.raises(StopIteration) as stopped:
        next(generator)
    assert expected == stopped.value.value


def test_busy_call_raises_by_default(lock: type[RecordedLock]) -> None:
    @locked("/locks/a", lock=lock)
    def run() -> None:
        raise AssertionError("the body ran without the lock")

    lock.refusal = BUSY
    with pytest.raises(AcquireTimeoutError) as caught:
        run()
    assert BUSY is caught.value


def test_silent_server_is_not_busy(lock: type[RecordedLock]) -> None:
    @locked("/locks/a", lock=lock, timeout=1, on_busy="skip")
    def run() -> None: ...

    lock.refusal = NO_SERVER
    with pytest.raises(AcquireTimeoutError) as caught:
        run()
    assert NO_SERVER is caught.value


# --- the grant


def test_body_gets_the_grant_and_callers_do_not_see_it(lock: type[RecordedLock]) -> None:
    @locked("/locks/{order_id}", lock=lock, grant="grant")
    def ship(order_id: int, *, grant: Grant, **more: object) -> tuple[object, object]:
        return grant, more

    assert ("grant of /locks/1", {"x": 2}) == ship(1, x=2)
    assert ["order_id", "more"] == list(inspect.signature(ship).parameters)
    assert {"order_id", "more", "return"} == set(get_type_hints(ship))
    assert "grant" in inspect.signature(ship.__wrapped__).parameters  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="grant is given by @locked"):
        ship(1, grant="mine")


@pytest.mark.parametrize("function", [lambda: None, lambda grant: None, lambda *grant: None])
def test_parameter_for_the_grant_must_be_keyword_only(function: Any) -> None:
    with pytest.raises(ConfigError, match=r"needs a keyword-only parameter of that name: \(…, \*, grant\)"):
        locked("/locks/a", grant="grant")(function)


def test_grant_is_no_part_of_a_key() -> None:
    def ship(*, grant: Grant) -> None: ...

    with pytest.raises(ConfigError, match=r"ship\(\) has no parameters"):
        locked("/locks/{grant}", grant="grant")(ship)


# --- generators


def test_generator_is_held_from_first_to_last(lock: type[RecordedLock]) -> None:
    @locked("/locks/{count}", lock=lock)
    def numbers(count: int) -> Iterator[int]:
        yield from range(count)
        return count  # what `yield from` gives

    assert inspect.isgeneratorfunction(numbers)
    generator = numbers(2)
    assert 1 == len(lock.made)  # that of the check
    assert 0 == next(generator)
    assert lock.made[-1].is_held
    assert [1] == list(generator)
    assert not lock.made[-1].is_held


def test_generator_passes_on_what_is_sent_thrown_and_returned(lock: type[RecordedLock]) -> None:
    @locked("/locks/a", lock=lock)
    def echo() -> Any:
        got = None
        while got != "stop":
            try:
                got = yield got
            except ValueError as error:
                got = error
        return "returned"

    generator = echo()
    error = ValueError("thrown")
    assert (None, 1, error) == (next(generator), generator.send(1), generator.throw(error))
    assert lock.made[-1].is_held
    with pytest.raises(StopIteration, match="returned"):
        generator.send("stop")
    assert not lock.made[-1].is_held


@pytest.mark.parametrize("end", ["close", "throw", "drop"])
def test_generator_ended_early_gives_the_lock_back(lock: type[RecordedLock], end: str) -> None:
    @locked("/locks/a", lock=lock)
    def numbers() -> Iterator[int]:
        yield 1
        yield 2

    generator: Any = numbers()
    next(generator)
    assert lock.made[-1].is_held
    if end == "close":
        generator.close()
    elif end == "throw":
        with pytest.raises(ValueError, match="thrown"):
            generator.throw(ValueError("thrown"))
    del generator
    assert not lock.made[-1].is_held


# --- checked when decorating


async def coroutine() -> None:
    """Be decorated."""


async def async_generator() -> Any:
    """Be decorated."""
    yield 1


def plain() -> None:
    """Be decorated."""


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (property(lambda self: 1), "put @locked below @property"),
        (ZkLock, "decorates functions and methods, not <class"),
        (17, "decorates functions and methods, not 17"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_cannot_be_decorated_says_so(function: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        locked("/locks/a")(function)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"timeout": -1}, "timeout must be at least 0"),
        ({"timeout": "1"}, "timeout must be a number"),
        ({"on_busy": "skp"}, "on_busy must be 'raise', 'skip', .*lambda error: 'text'"),
        ({"on_busy": "skip"}, "timeout=None waits for ever: give timeout=0"),
        ({"dialect": "java"}, "dialect must be one of"),
        ({"max_hold": 0}, "max_hold must be positive"),
        ({"nonsense": 1}, "cannot make its lock: .*'nonsense'"),
        ({"lock": "mutex"}, "lock must be a lock class or a function"),
        ({"lock": ZkReadWriteLock}, r"lock=lambda path, \*\*options: ZkReadWriteLock\(path, \*\*options\).write"),
        ({"lock": ZkSemaphore}, "cannot make its lock: .*'permits'"),
        ({"key": 17}, "key must be a template or a function, not 17"),
        ({"key": "/locks/{order}"}, r"plain\(\) has no parameters"),
    ],
)  # fmt: skip
def test_wrong_option_is_found_when_decorating(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        locked(**{"key": "/locks/a", **options})(plain)


@pytest.mark.parametrize("function", [coroutine, async_generator])
def test_wrong_kind_of_lock_is_found_when_decorating(function: Any) -> None:
    with pytest.raises(ConfigError, match=r"a lock for asyncio, not ZkLock; .*: AsyncZkReadWriteLock"):
        locked("/locks/a", lock=ZkLock)(function)
    with pytest.raises(ConfigError, match="a lock for threads, not AsyncZkLock"):
        locked("/locks/a", lock=AsyncZkLock)(plain)
    with pytest.raises(ConfigError, match="on_lost"):
        locked("/locks/a", on_lost="signal")(plain)
    with pytest.raises(ConfigError, match="on_lost must be 'cancel' or 'signal'"):
        locked("/locks/a", on_lost="ignore")(function)


def test_asynchronous_functions_stay_what_they_are() -> None:
    assert inspect.iscoroutinefunction(locked("/locks/a")(coroutine))
    assert inspect.isasyncgenfunction(locked("/locks/a")(async_generator))


def test_partial_of_a_lock_class_makes_the_lock() -> None:
    made: list[str] = []

    class Pool(ZkSemaphore):
        def __enter__(self) -> Any:
            made.append(f"{self.path} {self._spec.rule.limit}")

        def __exit__(self, *error: object) -> None: ...

    @locked("/pools/{name}", lock=functools.partial(Pool, permits=4))
    def run(name: str) -> None: ...

    run("gpu")
    assert ["/pools/gpu 4"] == made


def test_function_that_returns_a_coroutine_is_refused(lock: type[RecordedLock]) -> None:
    @locked("/locks/a", lock=lock)
    def run() -> Any:
        return coroutine()

    with pytest.raises(ConfigError, match="would run after the release"):
        run()
    assert not lock.made[-1].is_held
