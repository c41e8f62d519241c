"""Users' callbacks run on two threads of ours; none can stop the others."""

import threading

import pytest

from zkcoord._session.callbacks import Callbacks

WAIT_S = 10


@pytest.fixture
def callbacks():
    callbacks = Callbacks("test")
    yield callbacks
    callbacks.close()
    for thread in threading.enumerate():
        if thread.name.startswith("test-callback"):
            thread.join(5.0)


def test_no_thread_is_started_before_it_is_needed():
    idle = Callbacks("idle")

    assert [] == [t.name for t in threading.enumerate() if t.name.startswith("idle-callback")]
    idle.close()


def test_a_callback_runs_on_a_daemon_thread_with_our_name(callbacks):
    seen, done = [], threading.Event()
    callbacks.run(lambda: (seen.append(threading.current_thread()), done.set()))

    assert done.wait(WAIT_S)
    assert (True, True) == (seen[0].name.startswith("test-callback-"), seen[0].daemon)


def test_one_that_blocks_does_not_hold_up_the_others(callbacks):
    release, done = threading.Event(), threading.Event()
    callbacks.run(lambda: release.wait(WAIT_S))
    callbacks.run(done.set)

    assert done.wait(WAIT_S)
    release.set()


def test_no_more_than_two_run_at_once(callbacks):
    barrier = threading.Barrier(3)
    callbacks.run(lambda: barrier.wait(WAIT_S))
    callbacks.run(lambda: barrier.wait(WAIT_S))
    third = threading.Event()
    callbacks.run(third.set)

    assert not third.is_set()
    barrier.wait(WAIT_S)
    assert third.wait(WAIT_S)


def test_what_one_raises_is_logged_and_goes_no_further(callbacks, caplog):
    def fail():
        raise ValueError("user's fault")

    done = threading.Event()
    for _ in range(3):
        callbacks.run(fail)
    callbacks.run(done.set)

    assert done.wait(WAIT_S)
    assert "callback.failed" in caplog.text
    assert "user's fault" in caplog.text


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_one_that_means_to_end_the_process_ends_no_thread(callbacks, caplog, error):
    def fail():
        raise error

    done = threading.Event()
    for _ in range(3):
        callbacks.run(fail)
    callbacks.run(done.set)

    assert done.wait(WAIT_S)
    assert error.__name__ in caplog.text


def test_close_lets_run_what_was_asked_for_and_ends_the_threads():
    callbacks = Callbacks("closing")
    done = []
    for n in range(10):
        callbacks.run(lambda n=n: done.append(n))
    threads = [t for t in threading.enumerate() if t.name.startswith("closing-callback")]
    callbacks.close()
    callbacks.close()
    for thread in threads:
        thread.join(WAIT_S)

    assert (list(range(10)), 2) == (sorted(done), len(threads))
    assert not any(thread.is_alive() for thread in threads)


def test_after_close_callbacks_are_dropped():
    callbacks = Callbacks("closed")
    callbacks.close()
    callbacks.run(lambda: pytest.fail("ran"))

    assert [] == [t.name for t in threading.enumerate() if t.name.startswith("closed-callback")]
