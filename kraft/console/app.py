"""The routes, the headers of every answer, and the errors.

Pages run in a few threads, because the client of the protocol blocks. A page is a function of a `Visit`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from kraft.client import AuthenticationError, ConnectionFailedError, RefusedError
from kraft.console import rendering
from kraft.console.pages import changes, clients, cluster, groups, login, quorum, settings, topics
from kraft.console.sessions import COOKIE, IDLE_SECONDS, Session
from kraft.console.visits import Console, ForbiddenError, NotFoundError, Page, Redirect, Visit
from kraft.protocol.error_codes import ErrorCode
from kraft_native.base.errors import InvalidArgumentError, KraftError

Handler = Callable[[Visit], Page | Redirect]

THREADS: Final = 8
FORM_BYTES_MAX: Final = 65_536
FORM_FIELDS_MAX: Final = 100
FORM_SECONDS: Final = 30.0
ADDRESS_CHARACTERS_MAX: Final = 8_192
"""Length of the path, and of the query."""
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
                               "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
NOT_FOUND: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.RESOURCE_NOT_FOUND,
                    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ErrorCode.INVALID_TOPIC_EXCEPTION)
REFUSED: Final = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED,
                  ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
INVALID: Final = (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_PARTITIONS, ErrorCode.INVALID_REPLICATION_FACTOR,
                  ErrorCode.INVALID_REQUEST, ErrorCode.POLICY_VIOLATION, ErrorCode.TOPIC_ALREADY_EXISTS,
                  ErrorCode.NON_EMPTY_GROUP)
"""Refusals of what the visitor requested: the request must be another one."""
PAGES: Final[dict[str, Handler]] = {
    "/": cluster.home, "/why": cluster.why, "/brokers": cluster.brokers, "/brokers/{broker}": cluster.broker,
    "/topics": topics.topics, "/topics/{topic}": topics.topic, "/topics/{topic}/records": topics.records,
    "/topics/{topic}/digests/{partition}": topics.digests, "/groups": groups.groups,
    "/groups/{group:path}": groups.group, "/clients": clients.clients, "/clients/{instance}": clients.client,
    "/transactions": groups.transactions, "/quorum": quorum.quorum,
    "/timeline": quorum.timeline, "/metadata": quorum.metadata, "/configs": settings.configs,
    "/configs/{kind}/{name:path}": settings.config, "/quotas": settings.quotas, "/acls": settings.acls,
    "/login": login.login_page,
}
FORMS: Final[dict[str, Handler]] = {
    "/login": login.login, "/logout": login.logout, "/change/{action}": changes.change,
}


class App:
    """The console as an ASGI application (`asgi`)."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._threads = ThreadPoolExecutor(THREADS, "kraft-console")
        self._files = {name: rendering.static(name) for name in rendering.STATIC}
        routes = [Route(path, self._form(handler), methods=["POST"]) for path, handler in FORMS.items()]
        routes += [Route(path, self._page(handler), methods=["GET"]) for path, handler in PAGES.items()]
        routes.append(Route("/static/{name}", self._static, methods=["GET"]))
        self.asgi = Starlette(routes=routes, exception_handlers={404: self._no_route, 405: self._no_route})

    def close(self) -> None:
        """Let running pages end, and release their threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _page(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            return await self._answer(request, handler, {})

        return answer

    def _form(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            body = bytearray()
            try:
                async with asyncio.timeout(FORM_SECONDS):
                    async for part in request.stream():
                        body += part
                        if len(body) > FORM_BYTES_MAX:
                            return self._refusal("The form is too large.", 413)
                fields = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True,
                                        max_num_fields=FORM_FIELDS_MAX))
            except TimeoutError:
                return self._refusal("The form did not come in time.", 408)
            except ClientDisconnect:
                return self._refusal("The connection was closed.", 400)
            except ValueError:
                return self._refusal("The form has too many fields.", 400)
            return await self._answer(request, handler, fields)

        return answer

    def _refusal(self, text: str, status: int) -> Response:
        return self._secured(Response(text, status, media_type="text/plain"))

    async def _answer(self, request: Request, handler: Handler, form: dict[str, str]) -> Response:
        if (refused := self._refused(request)) is not None:
            return refused
        options = self.console.options
        session = self.console.sessions.find(request.cookies.get(COOKIE, "")) if options.allow_changes else None
        is_new = options.allow_changes and session is None and request.url.path == "/login"
        if is_new:
            session = self.console.sessions.begin()
        visit = Visit(self.console, request.path_params, dict(request.query_params), form, session)
        if request.method == "POST" and (session is None or is_new or not session.accepts(form.get("token", ""))):
            return self._secured(self._error(visit, request, "This form is too old or comes from elsewhere: load the "
                                             "page again.", 403))
        work = asyncio.get_running_loop().run_in_executor(self._threads, self._run, handler, visit, request)
        response, begun = await work
        if begun is not None or is_new:
            self._set_cookie(response, request, begun or session)
        return self._secured(response)

    def _refused(self, request: Request) -> Response | None:
        """Return the answer to a request that names another host, or comes from another site's page."""
        host = (request.headers.get("host") or "").lower()
        name = _part(f"//{host}", "hostname")
        if name not in self.console.options.hosts:
            return self._refusal(f"This console does not serve the host {name[:80]!r}: start it with --host-name.", 421)
        origin = request.headers.get("origin")
        if request.method == "POST" and origin is not None and _part(origin, "netloc").lower() != host:
            return self._refusal("The form comes from another site.", 403)
        if max(len(request.scope["query_string"]), len(request.scope["path"])) > ADDRESS_CHARACTERS_MAX:
            return self._refusal("The address is too long.", 414)
        return None

    def _run(self, handler: Handler, visit: Visit, request: Request) -> tuple[Response, Session | None]:
        """Run a page in a thread, and turn its errors into pages."""
        try:
            found = handler(visit)
            if isinstance(found, Redirect):
                return RedirectResponse(found.to, 303), found.session
            return HTMLResponse(rendering.render(found, visit, request.url.path), found.status), None
        except NotFoundError as error:
            return self._error(visit, request, f"There is no {error}.", 404), None
        except ForbiddenError as error:
            return self._error(visit, request, str(error), 403), None
        except InvalidArgumentError as error:
            return self._error(visit, request, str(error), 400), None
        except RefusedError as error:
            return self._error(visit, request, str(error), _status_of(error.code)), None
        except AuthenticationError as error:
            return self._error(visit, request, str(error), 403), None
        except ConnectionFailedError as error:
            return self._error(visit, request, f"The cluster does not answer: {error}", 503), None
        except KraftError as error:
            return self._error(visit, request, str(error), 502), None

    def _error(self, visit: Visit, request: Request, text: str, status: int) -> Response:
        page = Page("error.html", {"text": text, "status": status, "refresh": 5 if status == 503 else 0}, status)
        return HTMLResponse(rendering.render(page, visit, request.url.path), status)

    async def _no_route(self, request: Request, _error: Exception) -> Response:
        if (refused := self._refused(request)) is not None:
            return refused
        visit = Visit(self.console, {}, {})
        return self._secured(self._error(visit, request, "There is no such page.", 404))

    async def _static(self, request: Request) -> Response:
        if (refused := self._refused(request)) is not None:
            return refused
        name = request.path_params["name"]
        if name not in self._files:
            return self._refusal("There is no such file.", 404)
        tag = f'"{sha256(self._files[name]).hexdigest()[:16]}"'
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return self._secured(Response(status_code=304, headers=headers))
        return self._secured(Response(self._files[name], media_type=rendering.STATIC[name], headers=headers))

    @staticmethod
    def _set_cookie(response: Response, request: Request, session: Session | None) -> None:
        if session is not None:
            response.set_cookie(COOKIE, session.session_id, httponly=True, samesite="strict", path="/",
                                max_age=int(IDLE_SECONDS), secure=request.url.scheme == "https")

    @staticmethod
    def _secured(response: Response) -> Response:
        for name, value in HEADERS.items():
            response.headers[name] = value
        response.headers.setdefault("Cache-Control", "no-store")
        return response


def _status_of(code: int) -> int:
    """Return the status of HTTP for a refusal of the cluster."""
    for status, codes in ((404, NOT_FOUND), (403, REFUSED), (400, INVALID)):
        if code in codes:
            return status
    return 502


def _part(address: str, name: str) -> str:
    """Return a part of an address, such as `hostname`; empty when the address is none."""
    try:
        return getattr(urlsplit(address), name) or ""
    except ValueError:
        return ""
