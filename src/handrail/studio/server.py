"""The page and its WebSocket, for this computer alone.

Everything lies under a random token, the first part of every address: no page of anybody else knows
it. The name that the browser asked for must be this computer's (DNS rebinding), and who opens the
socket must be our own page. Nothing is served but the files of the page.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import PurePosixPath
from typing import final

import uvicorn
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from handrail.studio.messages import Note, packed
from handrail.studio.requests import parsed
from handrail.studio.session import Outbox, Session

HOST = "127.0.0.1"
_ADDRESS = "http://{host}:{port}/{token}/"

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}

_LARGEST_MESSAGE = 4_000_000

# Nonsense that is answered, one by one; afterwards the socket is closed.
_MOST_NONSENSE = 200


@final
class Guard:
    """Lets only those in who know the token, and came by this computer's own name."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app, self._token = app, token
        self._hosts = {f"{name}:{port}" for name in (HOST, "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As every ASGI application."""
        if scope["type"] in ("http", "websocket") and not self._may_enter(scope):
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 4403})
                return
            refusal = PlainTextResponse("Not found: use the address that Handrail printed.", 404)
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _may_enter(self, scope: Scope) -> bool:
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self._hosts:
            return False
        if origin is None and scope["type"] == "websocket":
            return False
        if origin is not None and origin != f"http://{host}":
            return False
        given = PurePosixPath(scope["path"]).parts[1:2]
        return hmac.compare_digest("".join(given).encode(), self._token.encode())


def make_app(session: Session, token: str, port: int) -> ASGIApp:
    """The page of a session, guarded."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        session.begin()
        try:
            yield
        finally:
            session.close()

    async def connect(connection: WebSocket) -> None:
        await _converse(connection, session)

    routes = [
        Route("/{token}/", _file),
        Route("/{token}/{name}", _file),
        WebSocketRoute("/{token}/socket", connect),
    ]
    return Guard(Starlette(routes=routes, lifespan=lifespan), token, port)


async def _file(request: Request) -> Response:
    """A file of the page, by its name."""
    name = request.path_params.get("name", "index.html")
    files = {one.name: one for one in resources.files("handrail.studio").joinpath("page").iterdir()}
    ending = f".{name.rpartition('.')[2]}"
    if name not in files or ending not in _TYPES:
        return PlainTextResponse("Not found.", 404, headers=_HEADERS)
    headers = {**_HEADERS, "Content-Type": _TYPES[ending]}
    return Response(files[name].read_bytes(), headers=headers)


async def _converse(connection: WebSocket, session: Session) -> None:
    """Hear one page until it goes, and tell it whatever happens."""
    await connection.accept()
    outbox = Outbox()
    session.join(outbox.put)
    telling = asyncio.create_task(_tell(connection, outbox))
    nonsense = 0
    try:
        while nonsense < _MOST_NONSENSE:
            answer = _answer(await _heard(connection), session)
            if answer is not None:
                nonsense += answer.what == "failed"
                outbox.put(answer)
            await asyncio.sleep(0)  # others have their turn, however much one has to say
        await connection.close(4400, "too much that is no message of this page")
    except WebSocketDisconnect:
        pass
    finally:
        session.leave(outbox.put)
        telling.cancel()


async def _heard(connection: WebSocket) -> str | bytes:
    message = await connection.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1000))
    text = message.get("text")
    return text if text is not None else message.get("bytes") or b""


def _answer(message: str | bytes, session: Session) -> Note | None:
    try:
        request = parsed(message)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]["msg"]
        return Note(what="failed", text=f"That is no message of this page: {first}.")
    return session.receive(request)


async def _tell(connection: WebSocket, outbox: Outbox) -> None:
    while True:
        try:
            await connection.send_text(packed(await outbox.take()))
        except (WebSocketDisconnect, RuntimeError):  # it has just gone
            return


def serve(session: Session, port: int, ready: Callable[[str], None]) -> None:
    """Serve a session until Ctrl-C.

    Args:
        session: of what was opened.
        port: of this computer; 0 for any that is free.
        ready: told the address, token included, once the page can be opened.
    """
    listening = socket.create_server((HOST, port))
    chosen = int(listening.getsockname()[1])
    token = secrets.token_urlsafe(24)
    config = uvicorn.Config(
        make_app(session, token, chosen),
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="websockets-sansio",
        ws_max_size=_LARGEST_MESSAGE,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    ready(_ADDRESS.format(host=HOST, port=chosen, token=token))
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:  # uvicorn raises it again once it has shut down
        pass
    finally:
        session.close()
        listening.close()
