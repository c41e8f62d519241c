"""
Ten candidates and what happens to their leader, on the embedded server: see `stage`.

``ZKCOORD_ELECTION_ROUNDS`` sets how many rounds; ``python -m tests.full election`` plays the full count.
"""

from __future__ import annotations

import os

import pytest

from tests.recipes.stage import EmbeddedPlace, Stage, play
from zkcoord.server import EmbeddedServer

ROUNDS = int(os.environ.get("ZKCOORD_ELECTION_ROUNDS", "16"))


@pytest.mark.timeout(120 + 10 * ROUNDS)
def test_one_leader_at_a_time_whatever_happens_to_it(server: EmbeddedServer) -> None:
    play(Stage(EmbeddedPlace(server), seed=int(os.environ.get("ZKCOORD_FULL_DONE", "0"))), ROUNDS)
