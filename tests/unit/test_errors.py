"""The error tree: kinds, fields, what messages say, and that errors survive a process pool."""

import copy
import pickle

import pytest

from zkcoord import errors
from zkcoord.errors import (
    AcquireCancelledError,
    AcquireTimeoutError,
    AlreadyHeldError,
    ConfigError,
    ConnectionLostError,
    ForeignProcessError,
    GrantLostError,
    LimitMismatchError,
    NotHeldError,
    QueueConflictError,
    SequenceExhaustedError,
    TransactionError,
    UpgradeError,
    ZkCoordError,
)

EXAMPLES = [
    (ZkCoordError("x"), {}),
    (ConfigError("timeout must be positive"), {}),
    (
        AcquireTimeoutError("/a", 1.5, 2, "host h"),
        {"path": "/a", "waited_s": 1.5, "position": 2, "holder": "host h"},
    ),
    (AcquireTimeoutError("/a", 1.5), {"path": "/a", "waited_s": 1.5, "position": None, "holder": None}),
    (AcquireCancelledError("/a", "closed"), {"path": "/a", "reason": "closed"}),
    (QueueConflictError("/a", ("x", "y")), {"path": "/a", "children": ("x", "y")}),
    (AlreadyHeldError("/a", "held"), {"path": "/a"}),
    (NotHeldError("/a", "released"), {"path": "/a"}),
    (
        GrantLostError("/a", 17, "expired", "more"),
        {"path": "/a", "token": 17, "reason": "expired", "is_still_held": False},
    ),
    (LimitMismatchError("/a", 3, 4), {"path": "/a", "asked": 3, "recorded": 4}),
    (UpgradeError("/a"), {"path": "/a"}),
    (ForeignProcessError("x"), {}),
    (SequenceExhaustedError("/a", 2_147_483_000), {"path": "/a", "sequence": 2_147_483_000}),
    (ConnectionLostError("no answer", True), {"maybe_applied": True}),
    (ConnectionLostError("no answer"), {"maybe_applied": False}),
    (TransactionError("/b", 2, "BadVersionError()"), {"path": "/b", "index": 2}),
]


def ids(example):
    return type(example).__name__ if isinstance(example, Exception) else ""


def classes():
    return {
        name: value
        for name, value in vars(errors).items()
        if isinstance(value, type) and name.endswith("Error")
    }


def test_the_examples_here_cover_the_tree():
    assert set(classes()) == {type(error).__name__ for error, _ in EXAMPLES}


def test_the_tree_drawn_in_the_module_is_the_tree():
    drawn = {}
    for line in errors.__doc__.splitlines():
        words = line.replace("│", " ").replace("├──", " ").replace("└──", " ").split()
        if words and words[0].endswith("Error"):
            also = words[2].rstrip(")") if words[1:2] == ["(also"] else None
            drawn[words[0]] = {"ZkCoordError", also} - {None} if words[0] != "ZkCoordError" else {"Exception"}

    assert drawn == {name: {base.__name__ for base in value.__bases__} for name, value in classes().items()}


def test_usual_handlers_catch_timeouts_and_bad_arguments():
    assert isinstance(AcquireTimeoutError("/a", 1.0), TimeoutError)
    assert isinstance(ConfigError("x"), ValueError)
    assert not isinstance(ConnectionLostError("x"), OSError)


@pytest.mark.parametrize(("error", "fields"), EXAMPLES, ids=ids)
def test_fields_are_there(error, fields):
    assert fields == {name: getattr(error, name) for name in fields}
    assert set(fields) == set(vars(error))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(("error", "fields"), EXAMPLES, ids=ids)
def test_errors_survive_pickling_with_fields_message_and_notes(error, fields, protocol):
    original = copy.copy(error)
    original.add_note("release failed too")

    back = pickle.loads(pickle.dumps(original, protocol))

    assert type(error) is type(back)
    assert (str(error), error.args) == (str(back), back.args)
    assert {**fields, "__notes__": ["release failed too"]} == vars(back)


def test_a_copy_does_not_share_the_originals_fields():
    error = UpgradeError("/a")
    twin = copy.copy(error)
    twin.path = "/b"

    assert "/a" == error.path


def test_a_users_subclass_with_another_constructor_survives_pickling():
    back = pickle.loads(pickle.dumps(Special(1, 2)))

    assert ("3", 3) == (str(back), back.total)


class Special(ZkCoordError):
    def __init__(self, first, second):
        self.total = first + second
        super().__init__(str(self.total))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            AcquireTimeoutError("/a", 1.5),
            [
                "/a was not acquired within 1.50 s",
                "no ZooKeeper server answered",
                "check the hosts",
                "quorum",
            ],
        ),
        (AcquireTimeoutError("/a", 1.5, detail="nobody at zk1"), ["1.50 s: nobody at zk1;"]),
        (
            AcquireTimeoutError("/a", 0.126, 3, "host h, pid 5"),
            [
                "/a was not acquired within 0.13 s",
                "3 ahead",
                "held up by host h, pid 5",
                "`zkcoord holders /a`",
            ],
        ),
        (AcquireTimeoutError("/a b", 1.5, 1), ["; `zkcoord holders '/a b'` shows the whole queue"]),
        (AcquireTimeoutError("/a + /b", 1.5, 1, None, "look there"), ["unknown member; look there"]),
        (AcquireTimeoutError("/a", 1.5, 1), ["1 ahead, held up by an unknown member"]),
        (AcquireTimeoutError("/a", 1.5, 0), ["0 ahead"]),
        (AcquireCancelledError("/a", "cancelled"), ["acquire of /a ended: cancelled"]),
        (
            QueueConflictError("/a", ("x\n",)),
            ["/a has members", r"'x\n'", "one kind and one dialect", "remove"],
        ),
        (AlreadyHeldError("/a", "is held"), ["/a: is held"]),
        (NotHeldError("/a", "was released"), ["/a: was released"]),
        (
            GrantLostError("/a", 17, "deadline"),
            ["grant of /a (token 17) is not surely held: deadline; stop the work", "acquire anew"],
        ),
        (
            GrantLostError("/a", 17, "expired", "seen by check()"),
            [": expired; seen by check(); stop the work"],
        ),
        (
            GrantLostError("/a", 17, "deadline", "for 1 s only", is_still_held=True),
            ["grant of /a (token 17) is still held, but for 1 s only"],
        ),
        (LimitMismatchError("/a", 3, 4), ["/a has 4 permits, not 3", "permits=None", "resize"]),
        (UpgradeError("/a"), ["/a: release the read lock first", "try_upgrade()"]),
        (
            SequenceExhaustedError("/a", 2_147_000_000),
            ["/a has used up", "2147000000 of 2147483647", "delete the directory"],
        ),
        (ConnectionLostError("no answer from zk1"), ["no answer from zk1"]),
        (
            TransactionError("/b", 2, "NoNodeError()"),
            ["operation 2 on /b was refused (NoNodeError())", "nothing was applied"],
        ),
    ],
    ids=ids,
)
def test_messages_say_what_where_and_what_next(error, words):
    assert [] == [word for word in words if word not in str(error)]


def test_many_conflicting_children_are_cut_after_five():
    five, six = (str(QueueConflictError("/a", tuple("abcdef"[:n]))) for n in (5, 6))

    assert "'e'" in five
    assert "…" not in five
    assert "'e' …" in six
    assert "'f'" not in six
