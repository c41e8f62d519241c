"""Who we are: keys that are never reused, data that others wrote and that is never trusted."""

import asyncio
import json
import os
import subprocess
import sys
import threading

import pytest

from zkcoord._session import identity
from zkcoord._session.identity import (
    current_task_owner,
    current_thread_owner,
    decode,
    describe,
    encode,
    is_same_owner,
)
from zkcoord.errors import ConfigError

HOSTILE = [
    b"",
    b"127.0.0.1",
    b"__REVOKE__",
    b"\xff\xfe\x00",
    b"[]",
    b"null",
    b"1",
    b'"v"',
    b"{}",
    b'{"v":2}',
    b'{"v":"1"}',
    b'{"v":1',
    b"[" * 100_000,
    b'{"v":1,"pid":' + b"9" * 10_000 + b"}",
    b'{"v":NaN}',
]


def in_a_thread(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join(10)
    return results[0]


def test_one_thread_is_one_owner():
    assert current_thread_owner().key == current_thread_owner().key


def test_a_dead_threads_key_is_never_used_again():
    keys = [in_a_thread(current_thread_owner).key for _ in range(50)]

    assert 51 == len({*keys, current_thread_owner().key})


def test_an_owner_knows_its_thread():
    owner = in_a_thread(current_thread_owner)

    assert (True, None, None) == (owner.thread_name.startswith("Thread-"), owner.name, owner.task)
    assert threading.get_native_id() == current_thread_owner().thread_id


def test_one_name_is_one_owner_on_any_thread():
    here, there = current_thread_owner("job"), in_a_thread(lambda: current_thread_owner("job"))

    assert here.key == there.key
    assert here.key != current_thread_owner("job2").key
    assert "job" == here.name


def test_a_name_cannot_pose_as_a_threads_key():
    key = current_thread_owner().key

    assert key != current_thread_owner(key).key


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_is_another_owner():
    code = """
import os
from zkcoord._session.identity import current_thread_owner
parent = current_thread_owner().key
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, current_thread_owner().key.encode())
    os._exit(0)
os.wait()
print(parent == os.read(read, 100).decode())
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert "False" == run.stdout.strip()


def test_data_says_who_in_one_json_object():
    owner = current_thread_owner("job-17")
    data = json.loads(encode(owner, "nightly"))

    assert ["v", "host", "boot", "pid", "thread", "task", "owner", "label", "lib", "since"] == list(data)
    assert (1, os.getpid(), "job-17", "nightly", None) == (
        data["v"],
        data["pid"],
        data["owner"],
        data["label"],
        data["task"],
    )
    assert {"id": owner.thread_id, "name": owner.thread_name, "key": owner.key} == data["thread"]
    assert data["lib"].startswith("zkcoord/")
    assert data["since"].endswith("Z")


def test_data_is_read_back_and_is_our_own():
    owner = current_thread_owner()

    assert "grüße 🔒" == decode(encode(owner, "grüße 🔒"))["label"]
    assert is_same_owner(encode(owner, None), owner)


def test_a_label_with_a_lone_surrogate_is_still_utf_8():
    data = encode(current_thread_owner(), "\ud83d")

    assert r"\ud83d" in data.decode("utf-8")


def test_another_thread_or_name_is_not_the_same_owner():
    data = encode(current_thread_owner(), None)

    assert not is_same_owner(data, in_a_thread(current_thread_owner))
    assert not is_same_owner(data, current_thread_owner("job"))


@pytest.mark.parametrize("field", ["host", "boot", "pid"])
@pytest.mark.parametrize("value", [None, "x", 0])
def test_another_host_boot_or_process_is_not_the_same_owner(field, value):
    owner = current_thread_owner("job")
    data = {**json.loads(encode(owner, None)), field: value}

    assert not is_same_owner(json.dumps(data).encode(), owner)


@pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
def test_data_of_others_is_nobodys(data):
    assert {} == decode(data)
    assert not is_same_owner(data, current_thread_owner())


@pytest.mark.parametrize("thread", [None, 1, "x", [], {}, {"key": None}, {"key": []}])
def test_a_strange_thread_is_not_the_same_owner(thread):
    assert not is_same_owner(json.dumps({"v": 1, "thread": thread}).encode(), current_thread_owner())
    assert describe("n", json.dumps({"v": 1, "thread": thread}).encode()).startswith("n (host None, pid None")


def test_a_description_is_one_readable_line():
    data = {
        "v": 1,
        "host": "h",
        "pid": 5,
        "thread": {"name": "T"},
        "label": "nightly",
        "task": None,
        "since": "now",
    }

    assert "n (host h, pid 5, thread T, label nightly, since now)" == describe("n", json.dumps(data).encode())


def test_control_characters_and_line_ends_are_escaped():
    text = describe("n", json.dumps({"v": 1, "host": "\x1b[31mred\n\u202e", "label": "\x00"}).encode())

    assert text.isprintable()
    assert text.isascii()
    assert r"\x1b[31mred\n\u202e" in text


def test_foreign_data_is_escaped_and_cut():
    assert "n" == describe("n", b"")
    assert "n (data '127.0.0.1')" == describe("n", b"127.0.0.1")
    assert r"n (data '\x1b[31m\ufffd')" == describe("n", b"\x1b[31m\xff")
    assert "x" * 60 in describe("n", b"x" * 1000)
    assert "x" * 61 not in describe("n", b"x" * 1000)


def test_a_long_description_is_cut():
    text = describe("n", json.dumps({"v": 1, "host": "h" * 100_000}).encode())

    assert len("n ()") + 300 == len(text)


@pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_data_can_always_be_described(data):
    assert describe("n", data).isprintable()


def test_the_boot_is_the_same_at_every_look():
    assert identity._boot() == identity._boot()


def test_each_task_is_an_owner_of_its_own_and_stays_it():
    async def main():
        async def child():
            first = current_task_owner()
            await asyncio.sleep(0)
            assert first == current_task_owner()
            return first

        own = current_task_owner()
        return [
            own,
            await child(),
            *await asyncio.gather(child(), asyncio.create_task(child(), name="named")),
        ]

    mine, called, one, other = asyncio.run(main())

    assert mine == called
    assert 4 == len({current_thread_owner().key, mine.key, one.key, other.key})
    assert "named" == other.task


def test_a_later_task_does_not_get_the_key_of_one_that_is_gone():
    async def main():
        async def child():
            return current_task_owner().key

        return [await asyncio.create_task(child()) for _ in range(200)]

    assert 200 == len(set(asyncio.run(main())))


def test_a_named_owner_is_the_same_in_thread_and_task():
    async def main():
        return current_task_owner("job").key

    assert current_thread_owner("job").key == asyncio.run(main())


def test_without_a_task_there_is_no_task_owner():
    with pytest.raises(ConfigError, match="in a task"):
        current_task_owner()
