"""What threads and loops say to each other, and what is done for a loop that was closed."""

from __future__ import annotations

import asyncio
import threading

import pytest

from zkcoord._session.loops import Wards, off_loop, tell


def test_a_loop_is_told_from_another_thread_and_a_closed_one_is_not():
    async def main():
        loop = asyncio.get_running_loop()
        told = loop.create_future()
        threading.Thread(target=tell, args=(loop, told.set_result, 7)).start()
        return loop, await told

    loop, value = asyncio.run(main())

    assert 7 == value
    assert not tell(loop, print, "never")


def test_what_blocks_runs_on_a_daemon_thread():
    thread = asyncio.run(off_loop(threading.current_thread))

    assert thread.daemon
    assert thread is not threading.current_thread()


def test_an_error_off_the_loop_comes_out():
    def fail():
        raise KeyError("x")

    with pytest.raises(KeyError):
        asyncio.run(off_loop(fail))


def test_a_cancelled_caller_does_not_wait_for_the_thread():
    leave = threading.Event()

    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await off_loop(leave.wait)
        leave.set()

    asyncio.run(main())


def test_only_closed_loops_are_cleaned_up_after_and_once():
    loops = [asyncio.new_event_loop(), asyncio.new_event_loop()]
    wards, done = Wards(), []
    for number, loop in enumerate(loops):
        wards.add(loop.is_closed, lambda number=number: done.append(number))
    assert 0 == wards.sweep()
    loops[1].close()

    assert [1, 0] == [wards.sweep(), wards.sweep()]
    assert [1] == done
    loops[0].close()


def test_what_was_taken_off_is_not_done():
    loop = asyncio.new_event_loop()
    wards, done = Wards(), []
    clean_up = done.clear
    wards.add(loop.is_closed, clean_up)
    wards.remove(loop.is_closed, clean_up)
    wards.remove(loop.is_closed, clean_up)
    loop.close()

    assert 0 == wards.sweep()
