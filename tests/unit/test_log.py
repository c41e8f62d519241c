"""Logging: nothing on stdout, nothing of kazoo's DEBUG, never a credential; fields for structured handlers."""

import logging
import subprocess
import sys

import pytest

from zkcoord._session.log import KazooLog, get_logger
from zkcoord.coordinator import Coordinator


def test_events_reach_the_stdlib_logger_as_text_and_as_fields(caplog):
    caplog.set_level(logging.INFO, "zkcoord")
    get_logger("test").info("grant.lost", path="/a", token=17)

    (record,) = caplog.records
    assert ("zkcoord.test", logging.INFO, "grant.lost path='/a' token=17") == (
        record.name,
        record.levelno,
        record.getMessage(),
    )
    assert ("grant.lost", {"path": "/a", "token": 17}) == (record.zkcoord_event, record.zkcoord_fields)


def test_per_cent_signs_of_quoted_paths_stay_as_they_are(caplog):
    get_logger("test").warning("acquire.queued", path="/a%2Fb %s %d")

    assert "acquire.queued path='/a%2Fb %s %d'" == caplog.messages[0]


def test_what_is_below_the_level_is_dropped(caplog):
    caplog.set_level(logging.WARNING, "zkcoord")
    get_logger("test").info("quiet")

    assert [] == caplog.records


def test_exceptions_come_with_their_trace(caplog):
    try:
        raise ValueError("why")
    except ValueError:
        get_logger("test").exception("callback.failed")

    assert "ValueError: why" in caplog.messages[0]
    assert caplog.messages[0].startswith("callback.failed\nTraceback")


def test_an_applications_own_structlog_set_up_does_not_matter():
    code = """
import structlog
structlog.configure(processors=[lambda *args: 1 / 0], logger_factory=structlog.PrintLoggerFactory())
from zkcoord._session.log import get_logger
get_logger("x").warning("event", a=1)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert (0, "", "event a=1\n") == (run.returncode, run.stdout, run.stderr)


def test_an_application_that_configured_nothing_sees_warnings_on_stderr_and_nothing_on_stdout():
    code = """
from zkcoord._session.log import KazooLog, get_logger
log = get_logger("x")
log.debug("debug"); log.info("info"); log.warning("warning")
kazoo = KazooLog().logger
kazoo.debug("debug"); kazoo.info("info"); kazoo.warning("kazoo's warning")
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert (0, "", "warning\n") == (run.returncode, run.stdout, run.stderr)


# --- kazoo's log


@pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO])
def test_kazoos_debug_records_never_pass_whatever_the_level(caplog, level):
    caplog.set_level(level, "zkcoord")
    caplog.set_level(logging.DEBUG)
    kazoo = KazooLog()
    kazoo.logger.setLevel(logging.DEBUG)
    kazoo.logger.debug("Sending request(xid=1): Auth(auth_type=0, scheme='digest', auth='user:secret')")
    kazoo.logger.log(5, "blather: secret")

    assert "secret" not in caplog.text


def test_kazoos_warnings_are_kept_for_messages_and_logged_as_routine(caplog):
    caplog.set_level(logging.INFO, "zkcoord")
    kazoo = KazooLog()
    assert "" == kazoo.last_warning
    kazoo.logger.info("Connecting to %s", "zk1")
    kazoo.logger.warning("Cannot resolve %s", "zk1")

    assert "Cannot resolve zk1" == kazoo.last_warning
    assert [(logging.INFO, "INFO"), (logging.INFO, "INFO")] == [
        (r.levelno, r.levelname) for r in caplog.records
    ]


def test_kazoos_log_is_silent_unless_info_is_asked_for(caplog):
    caplog.set_level(logging.WARNING, "zkcoord")
    kazoo = KazooLog()
    kazoo.logger.warning("Connection dropped")

    assert [] == caplog.records
    assert "Connection dropped" == kazoo.last_warning


def test_a_clients_credentials_are_in_no_record_of_a_failing_connect(caplog):
    caplog.set_level(1)
    with Coordinator(hosts="127.0.0.1:1", auth=[("digest", "user:top-secret")]) as coordinator:
        coordinator.session().wait_connected(0.2)
        text = f"{coordinator!r} {coordinator.last_problem}"

    assert "top-secret" not in caplog.text + text
