"""Running coroutines in tests so that nothing they leave behind goes unnoticed."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LeftBehindError(AssertionError):
    """A coroutine left tasks behind, or its loop had something to complain of."""


def run(
    main: Coroutine[Any, Any, T],
    *,
    timeout: float = 60.0,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> T:
    """
    Run a coroutine in a new event loop in debug mode, and close the loop.

    Args:
        main: what is run.
        timeout: seconds after which it is cancelled.
        loop_factory: makes another kind of loop.

    Raises:
        LeftBehindError: it ended with tasks still running, or the loop was told of an exception that nobody retrieved
            or of a task that was destroyed.
        TimeoutError: `timeout` ran out.
    """
    complaints: list[str] = []

    async def watched() -> T:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: complaints.append(f"{context}"))
        async with asyncio.timeout(timeout):
            result = await main
        complaints.extend(
            f"still running: {task!r}" for task in asyncio.all_tasks() - {asyncio.current_task()}
        )
        return result

    with asyncio.Runner(debug=True, loop_factory=loop_factory) as runner:
        result = runner.run(watched())
        gc.collect()  # what is never retrieved is told of when it is thrown away
    if complaints:
        raise LeftBehindError("\n".join(complaints))
    return result
