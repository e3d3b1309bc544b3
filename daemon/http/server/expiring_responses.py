"""Answers that go on, such as streams of events: each ends as soon as its client loses the right to it.

A request is admitted once; its grounds may end while its answer goes on: a token, a user, a role, a session.
`users/entrance.py` knows the grounds.
"""

import asyncio
import contextlib
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daemon.http.server.problem_details import problem

#: Seconds between two looks, while nothing is sent.
_LOOK = 1.0


async def serve_while(
    stands: Callable[[], bool], app: ASGIApp, scope: Scope, receive: Receive, send: Send
) -> None:
    """Have the app answer for as long as `stands` returns true, which is asked before each part is sent."""
    begun = complete = False

    async def sending(message: Message) -> None:
        nonlocal begun, complete
        if not stands():
            answering.cancel()
            await asyncio.Event().wait()  # until that reaches the app
        begun = True
        complete = message["type"] == "http.response.body" and not message.get("more_body", False)
        await send(message)

    answering = asyncio.ensure_future(_answered(app, scope, receive, sending))
    ended = False
    try:
        while not (await asyncio.wait({answering}, timeout=_LOOK))[0] and not ended:
            ended = not stands()
            if ended:
                answering.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await answering
    finally:
        answering.cancel()
    if not begun:
        await problem(401, "the authorization of this request ended before there was an answer")(
            scope, receive, send
        )
    elif not complete:
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _answered(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    await app(scope, receive, send)
