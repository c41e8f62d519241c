"""
Deliberate faults in the algorithms: each is a mistake that some lock library made, or that we might.

A `Mutant` changes a few lines of zkcoord's text. ``python -m tests.full mutants`` applies them one at a time to a copy
and runs the tests on it; a mutant that no test kills is a promise that nothing checks.
"""

from __future__ import annotations

from dataclasses import dataclass

_CONTENDER = "zkcoord/_core/contender.py"
_QUEUE = "zkcoord/_core/queue.py"
_LEASE = "zkcoord/_core/lease.py"
_GUARD = "zkcoord/_session/guard.py"
_RUNNER = "zkcoord/_session/runner.py"
_JANITOR = "zkcoord/_session/janitor.py"
_SCOPE = "zkcoord/_aio/scope.py"


@dataclass(frozen=True)
class Mutant:
    """
    One fault.

    Attributes:
        name: what is wrong.
        edits: file, the text that stands there exactly once, and what takes its place.
    """

    name: str
    edits: tuple[tuple[str, str, str], ...]


def _mutant(name: str, *edits: tuple[str, str, str]) -> Mutant:
    return Mutant(name, edits)


MUTANTS = (
    # --- the acquire
    _mutant(
        "no catching up in recovery",
        (_CONTENDER, "return [CatchUp(), *self._list_all()]", "return self._list_all()"),
    ),
    _mutant(
        "catching up by a sync, which a deserted leader answers",
        (
            "zkcoord/_session/wire.py",
            'return Transaction([CheckVersion(full_path(client, "/"), -1)])',
            'return Sync(full_path(client, "/"))',
        ),
        ("zkcoord/_session/wire.py", "import CheckVersion, Create2,", "import CheckVersion, Create2, Sync,"),
    ),
    _mutant(
        "no owner check of the created member",
        (
            _CONTENDER,
            "if place.node and place.is_known and place.node.session != self._session:",
            "if False:",
        ),
    ),
    _mutant(
        "no owner check of an adopted member",
        (
            _CONTENDER,
            """            if event.node is None or event.node.session != self._session:
                return self._restart()
            place.node = event.node
            if any(""",
            """            if event.node is None:
                return self._restart()
            place.node = event.node
            if any(""",
        ),
    ),
    _mutant(
        "adopt any member",
        (_CONTENDER, "for name in children if name.startswith(place.prefix)", "for name in children"),
        (
            _CONTENDER,
            "            if not event.name.startswith(place.prefix):\n                return []\n",
            "",
        ),
    ),
    _mutant(
        "adopt the newest and leave the others",
        (
            _CONTENDER,
            "return [*commands, Find(index, oldest)]",
            "return [Find(index, others[-1] if others else oldest)]",
        ),
    ),
    _mutant(
        "the answer of an earlier attempt is taken for this one's",
        (
            _CONTENDER,
            "if event.prefix != self._prefix or self.phase not in (Phase.CREATING, Phase.RECOVERING):",
            "if self.phase not in (Phase.CREATING, Phase.RECOVERING):",
        ),
    ),
    _mutant(
        "grant on the event, without a list",
        (
            _CONTENDER,
            """        self._places[index].decision = None
        return [List(self._prefix, index), *self._find_others(index)]""",
            """        self._places[index].decision = Granted()
        return self._advance()""",
        ),
    ),
    _mutant(
        "watch by exists",
        (
            "zkcoord/_session/watches.py",
            "self._requests.submit(GetData(full_path(self._client, path), entry), answered)",
            "self._requests.submit(Exists(full_path(self._client, path), entry), answered)",
        ),
        (
            "zkcoord/_session/watches.py",
            "                    on_answer(value, None)\n",
            "                    on_answer((b'', value) if value else None, None)\n",
        ),
        ("zkcoord/_session/watches.py", "import GetData\n", "import Exists, GetData\n"),
    ),
    _mutant(
        "no look at the own member after a reconnect",
        (
            _CONTENDER,
            "return [*finds, *(Watch(place, name) for place, name in self._watching)]",
            "return [Watch(place, name) for place, name in self._watching]",
        ),
    ),
    _mutant(
        "no watch anew after a reconnect",
        (
            _CONTENDER,
            "return [*finds, *(Watch(place, name) for place, name in self._watching)]",
            "return finds",
        ),
    ),
    _mutant(
        "members of another session are kept",
        (_CONTENDER, "                if not is_same:\n                    return self._restart()\n", ""),
    ),
    _mutant(
        "granted without a proof that lasts",
        (_GUARD, "            if not self._is_fresh(self._clock()):\n", "            if False:\n"),
    ),
    _mutant(
        "a watch is never taken back",
        (
            _CONTENDER,
            "[Unwatch(*old) for old in self._watching if old not in wanted]",
            "[]",
        ),
    ),
    _mutant(
        "the timeout begins anew with each member that leaves",
        (
            "zkcoord/_sync/driver.py",
            "    if not done.wait(give_up):\n        runner.post",
            """    ahead = None
    while not done.wait(give_up) and give_up is not None and runner.position != ahead:
        ahead, give_up = runner.position, clock.now() + (ask.timeout_s or 0.0)
    if not done.wait(give_up):
        runner.post""",
        ),
    ),
    # --- the queue
    _mutant(
        "string order of whole names",
        (
            _QUEUE,
            "    mine = me[-_DIGITS:]\n    nearest = head",
            "    mine = me\n    nearest = head",
        ),
        (
            _QUEUE,
            "        key = name[-_DIGITS:]\n        # An equal",
            "        key = name\n        # An equal",
        ),
    ),
    _mutant(
        "all wait for the head",
        (
            _QUEUE,
            "return Wait(nearest, head, position) if position",
            "return Wait(head, head, position) if position",
        ),
    ),
    _mutant(
        "readers wait for readers", (_QUEUE, "if key <= mine and marker in rule.blockers:", "if key <= mine:")
    ),
    _mutant(
        "granted though the own member is gone",
        (
            _QUEUE,
            "        return Gone()\n    return Wait(nearest, head, position)",
            "        pass\n    return Wait(nearest, head, position)",
        ),
    ),
    _mutant(
        "a semaphore has one permit more",
        (_QUEUE, "    room = limit - rule.weight\n", "    room = limit - rule.weight + 1\n"),
    ),
    _mutant(
        "a semaphore watches the nearest only",
        (
            _QUEUE,
            "return Wait(nearest, ahead[-1][2], len(ahead), tuple(others))",
            "return Wait(nearest, ahead[-1][2], len(ahead))",
        ),
    ),
    _mutant(
        "a semaphore does not watch its limit",
        (_CONTENDER, """*([""] if self._places[index].rule.weight else [])""", ""),
    ),
    _mutant(
        "a multi-lock is granted with its first path",
        (
            _CONTENDER,
            "if None in decisions or not all(place.is_known for place in self._places):",
            "if decisions[0] is None or not all(place.is_known for place in self._places):",
        ),
        (_CONTENDER, "                    assert decision == Granted()\n", "                    pass\n"),
    ),
    _mutant(
        "a multi-lock does not look at its other members again",
        (
            _CONTENDER,
            "return [List(self._prefix, index), *self._find_others(index)]",
            "return [List(self._prefix, index)]",
        ),
    ),
    _mutant(
        "a reader stands beside a write member that is gone",
        (_CONTENDER, "if self._companion is not None and self._companion.name not in children:", "if False:"),
    ),
    # --- how long a session lives
    _mutant(
        "deadline from the reply's time",
        (
            "zkcoord/_session/requests.py",
            "self._on_answer(call.sent, arrived, ",
            "self._on_answer(arrived, arrived, ",
        ),
    ),
    _mutant(
        "deadline from the create alone",
        (_LEASE, "self._advance(sent - self._pair_gap_s)", "self.basis = max(self.basis, sent)"),
    ),
    _mutant(
        "pair rule by send times only",
        (_LEASE, "self._answers.append(_Answer(sent, arrived))", "self._answers.append(_Answer(sent, sent))"),
    ),
    _mutant("pair rule without a gap", (_LEASE, "return min(timeout_s / 4, MAX_PAIR_GAP_S)", "return 0.0")),
    _mutant("history kept across a reconnect", (_LEASE, "        self._answers.clear()\n", "")),
    _mutant(
        "the margin added",
        (
            _LEASE,
            "return self.basis + self._timeout_s - self._margin_s",
            "return self.basis + self._timeout_s + self._margin_s",
        ),
    ),
    _mutant(
        "heartbeat by read",
        (
            _GUARD,
            "check = Transaction([CheckVersion(full_path(self._client, path), -1)])",
            "check = Exists(full_path(self._client, path), None)",
        ),
    ),
    _mutant(
        "heartbeat only while holding",
        (
            _GUARD,
            "        if not self._members:\n            due =",
            "        if not self._holds:\n            due =",
        ),
    ),
    _mutant(
        "no heartbeat after the first",
        (
            _GUARD,
            "        if now >= due and not self._is_beating:\n",
            "        if now >= due and self._beat_sent < 0:\n",
        ),
    ),
    _mutant(
        "an answer that came too late revives a lost grant",
        (_GUARD, "if self._holds and arrived >= self._lease.deadline:", "if False:"),
    ),
    _mutant(
        "a reconnect that came too late revives a lost grant",
        (_GUARD, "elif self._clock() >= self._lease.deadline:", "elif False:"),
    ),
    _mutant(
        "grants outlive their session",
        (_GUARD, "        for hold in holds:\n            hold.lose(reason)\n", ""),
    ),
    _mutant(
        "held is a flag that the guard clears",
        (
            "zkcoord/_core/grant.py",
            "if state.is_released or now < min(deadline, until):",
            "if state.is_released or now < until:",
        ),
    ),
    _mutant(
        "max_hold is forgotten",
        (
            "zkcoord/_session/hold.py",
            "return min(self._lease.deadline, self.until)",
            "return self._lease.deadline",
        ),
    ),
    _mutant(
        "a delete by hand goes unnoticed",
        (
            _GUARD,
            "                hold.lose(LossReason.DELETED)\n                return\n",
            "                return\n",
        ),
        (_GUARD, "            elif error is None:\n                hold.lose(LossReason.DELETED)\n", ""),
    ),
    # --- clean-up
    _mutant(
        "clean-up by the path that the answer told",
        (
            _RUNNER,
            "        elif self._create is None or not self._session.requests.cancel(self._create):\n"
            "            self._session.janitor.search(directory, prefix)\n",
            "",
        ),
    ),
    _mutant(
        "clean-up searches without catching up",
        (
            _JANITOR,
            "        self._requests.submit(catch_up(self._client), lambda value, error: None, is_confirmed=True)\n",
            "",
        ),
    ),
    _mutant(
        "a delete is forgotten with its connection",
        (
            _JANITOR,
            "                    task.was_sent = task.was_sent or error.maybe_applied\n"
            "                    self._postpone(task)\n",
            "                    self._strike(task, False)\n",
        ),
    ),
    _mutant(
        "our own second delete is taken for somebody else's",
        (
            _GUARD,
            "hold.is_deleted_by_us = hold.is_deleted_by_us or was_there",
            "hold.is_deleted_by_us = was_there",
        ),
    ),
    _mutant(
        "the stamp overwrites a revocation",
        (_GUARD, "SetData(path, hold.stamp, 0)", "SetData(path, hold.stamp, -1)"),
    ),
    # --- asyncio
    _mutant(
        "a cancelled acquire leaves its member",
        (
            "zkcoord/_aio/base.py",
            "            session.guard.unfinished.append(ask.undo)\n"
            "            ask.undo()\n"
            "            session.guard.finished(ask.undo)\n",
            "",
        ),
    ),
    _mutant(
        "our cancellation is never taken back",
        (_SCOPE, "self._task.uncancel() <= self._before", "self._task.cancelling() <= self._before + 1"),
    ),
    _mutant(
        "an outside cancellation is taken for ours",
        (
            _SCOPE,
            "return is_alone and isinstance(error, asyncio.CancelledError)",
            "return isinstance(error, asyncio.CancelledError)",
        ),
    ),
    _mutant(
        "a loss after the body cancels what comes next",
        (_SCOPE, "        self._is_open = False\n        self._undo()\n", ""),
    ),
    _mutant(
        "a child task inherits",
        (
            "zkcoord/_aio/base.py",
            "    def _owner(self) -> Owner:\n        return current_task_owner(self._spec.owner)\n",
            "    def _owner(self) -> Owner:\n        return current_thread_owner(self._spec.owner)\n",
        ),
        (
            "zkcoord/_aio/base.py",
            "import Owner, current_task_owner",
            "import Owner, current_task_owner, current_thread_owner",
        ),
    ),
    _mutant(
        "a closed loop's grants stay held",
        (_GUARD, "abandoned = self.wards.sweep()", "abandoned = 0"),
    ),
    _mutant(
        "a deleted member is a good release on asyncio",
        ("zkcoord/_aio/grants.py", "self._was_deleted = was_there == [False]", "self._was_deleted = False"),
    ),
    _mutant(
        "a coordinator stays open when its entering is cancelled",
        (
            "zkcoord/coordinator.py",
            '            threading.Thread(target=self.close, name="zkcoord-close", daemon=True).start()\n',
            "",
        ),
    ),
)
