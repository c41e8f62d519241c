"""
Play one sequence of operations on a server and write down, comparably, all that its clients saw.

zxids are counted from the sequence's own root node, sessions are numbered as they come, paths are relative, times
are left out, and what ZooKeeper gives in no particular order is sorted.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from tests.support.zk_raw import OPEN, Answer, ClosedError, RawClient, create, digest_auth, multi
from zkcoord.server import records as r
from zkcoord.server.codes import Op
from zkcoord.server.requests import MultiRequest, MultiResponse, Record

CLIENTS = 3
#: A path that starts with it is used as it is, not below the sequence's root.
ABSOLUTE = "!"


@dataclass(frozen=True)
class Step:
    """
    One request of one client. Paths are relative to the sequence's root; ``relative_zxid`` to its czxid.

    ``op`` may also be ``reconnect`` (take the session over on a new connection) or ``renew`` (close the session and
    open a new one).
    """

    client: int
    op: int | str
    body: Record | None = None
    raw: bytes = b""


Trace = list[Any]


class Player:
    """One server's side of a sequence."""

    def __init__(self, hosts: str, root: str) -> None:
        self._hosts = hosts
        self._root = root
        self._sessions: dict[int, str] = {}
        self._trace: Trace = []
        self._clients = [self._connect() for _ in range(CLIENTS)]
        made = self._clients[0].call(Op.CREATE2, create(root))
        assert made.error == 0, made
        self._base: int = made.record.stat.czxid

    def play(self, steps: list[Step]) -> Trace:
        """Do the steps one after the other; then look at what is left, and close everything."""
        try:
            for step in steps:
                self._step(step)
            for index, client in enumerate(self._clients):
                self._note(index, "end", client.call(Op.PING))
            self._trace.append(self._look_around())
            for client in self._clients:
                client.close_session()
        finally:
            for client in self._clients:
                client.close()
        return self._trace

    def _connect(self, session_id: int = 0, password: bytes = bytes(16)) -> RawClient:
        client = RawClient(self._hosts, session_id, password)
        self._sessions.setdefault(client.response.session_id, f"session {len(self._sessions)}")
        return client

    def _step(self, step: Step) -> None:
        client = self._clients[step.client]
        match step.op:
            case "reconnect":
                fresh = self._connect(client.response.session_id, client.response.password)
                assert client.is_closed_by_server()
                client.close()
                fresh.events = client.events
                self._clients[step.client] = fresh
                answer = fresh.call(Op.PING)
            case "renew":
                client.close_session()
                fresh = self._connect()
                fresh.events = client.events
                self._clients[step.client] = fresh
                answer = fresh.call(Op.PING)
            case Op.CHECK:  # a real server does not answer when all is well
                client.send(Op.CHECK, self._rooted(step.body))
                client.send(Op.PING)
                answer = client.receive(Op.CHECK)
                if answer.xid != -2:
                    client.receive(Op.PING)
            case int():
                try:
                    answer = client.call(step.op, self._rooted(step.body), step.raw)
                except ClosedError:
                    self._trace.append((step.client, "closed"))
                    self._clients[step.client] = self._connect(
                        client.response.session_id, client.response.password
                    )
                    return
            case _:
                raise AssertionError(step)
        self._note(step.client, str(step.op), answer)

    def _rooted(self, body: Record | None) -> Record | None:
        if isinstance(body, MultiRequest):
            return multi(*[(part.op, self._must(part.body)) for part in body.operations])
        if isinstance(body, r.SetWatchesRequest | r.SetWatches2Request):
            lists = [tuple(self._absolute(path) for path in paths) for paths in body[1:]]
            return type(body)(body.relative_zxid + self._base, *lists)
        path = getattr(body, "path", None)
        return body if path is None else body._replace(path=self._absolute(path))  # type: ignore[union-attr]

    def _must(self, body: Record) -> Record:
        rooted = self._rooted(body)
        assert rooted is not None
        return rooted

    def _absolute(self, path: str) -> str:
        return path.removeprefix(ABSOLUTE) if path.startswith(ABSOLUTE) else self._root + path

    # --- comparable ------------------------------------------------------------------------------------------------

    def _note(self, index: int, op: str, answer: Answer) -> None:
        client = self._clients[index]
        events = sorted((event.type, self._relative(event.path)) for event in client.events)
        client.events = []
        # Every request of the sequence takes a zxid or none: 0 and -1 are answers that carry none.
        zxid = answer.zxid - self._base if answer.zxid > 0 else answer.zxid
        self._trace.append((index, op, events, zxid, answer.error, self._plain(answer.record), answer.rest))

    def _relative(self, path: str | None) -> str | None:
        return None if path is None else path.replace(self._root, "", 1)

    def _plain(self, record: Any) -> Any:
        match record:
            case r.Stat():
                owner = self._sessions.get(record.ephemeral_owner, record.ephemeral_owner)
                zxids = [zxid - self._base for zxid in (record.czxid, record.mzxid, record.pzxid)]
                return (*zxids, *record[4:7], owner, *record[8:10])
            case r.PathResponse() | r.Create2Response():
                return (self._relative(record.path), *[self._plain(item) for item in record[1:]])
            case r.TextsResponse():
                return sorted(str(self._relative(text)) for text in record.texts)
            case r.GetChildren2Response():
                return (sorted(record.children), self._plain(record.stat))
            case r.WhoAmIResponse():
                return sorted(record.clients)
            case MultiResponse():
                return [(op, error, self._plain(part)) for op, error, part in record.results]
            case tuple():
                return tuple(self._plain(item) for item in record)
            case _:
                return record

    def _look_around(self) -> dict[str, Any]:
        """The whole tree below the root, as far as it can be read."""
        client = self._clients[0]
        for credentials in ("one:1", "two:2"):
            client.call(Op.AUTH, digest_auth(credentials), xid=-4)
        found: dict[str, Any] = {}
        waiting = [self._root]
        while waiting:
            path = waiting.pop()
            data = client.call(Op.GET_DATA, r.PathWatchRequest(path, False))
            acl = client.call(Op.GET_ACL, r.PathRequest(path))
            children = client.call(Op.GET_CHILDREN, r.PathWatchRequest(path, False))
            stat = client.call(Op.EXISTS, r.PathWatchRequest(path, False))
            found[str(self._relative(path))] = [
                (answer.error, self._plain(answer.record)) for answer in (data, acl, children, stat)
            ]
            if children.error == 0:
                waiting += [f"{path}/{name}" for name in sorted(children.record.texts)]
        return found


_numbers = itertools.count(1)


def compare(one: str, other: str, steps: list[Step]) -> tuple[Trace, Trace]:
    """Play steps on two servers; the traces should be equal."""
    root = f"/differential-{next(_numbers)}"
    return Player(one, root).play(steps), Player(other, root).play(steps)


def first_difference(real: Trace, embedded: Trace) -> str:
    """Say where two traces part, for people; empty when they are equal."""
    for index, (theirs, ours) in enumerate(itertools.zip_longest(real, embedded)):
        if theirs != ours:
            if isinstance(theirs, dict) and isinstance(ours, dict):
                theirs = {path: value for path, value in theirs.items() if ours.get(path) != value}
                ours = {path: value for path, value in ours.items() if path in theirs}
            return f"at {index}:\n  real     {theirs}\n  embedded {ours}"
    return ""


__all__ = ["ABSOLUTE", "CLIENTS", "OPEN", "Player", "Step", "Trace", "compare", "first_difference"]
