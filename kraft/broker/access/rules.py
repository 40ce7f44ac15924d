"""Parts of the table of permissions: rows, the checks in them, and the call that a row is executed for."""

from collections.abc import Callable, Generator
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from kraft.broker.api import Answer, Steps
from kraft.metadata.image import EMPTY, MetadataImage
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.security.access import Access
from kraft.security.acls import CLUSTER_NAME, Operation, ResourceType
from kraft.security.audit.sink import ERROR_OF

if TYPE_CHECKING:
    from kraft.broker.broker import Broker


class Check(NamedTuple):
    """A permission. `names` is the path of the names in the request, empty for the cluster; `remark` is about when or
    how it is checked, for the documentation. A check that is `silent` has no error: without the permission, things are
    removed from the answer, or other checks decide."""

    operation: Operation
    resource: ResourceType
    names: str = ""
    remark: str = ""
    silent: bool = False

    @property
    def error(self) -> ErrorCode:
        """The error without the permission."""
        return ERROR_OF[self.resource]

    def passes(self, access: Access, source: Any) -> bool:
        """Return whether the client has the permission on what `source` names: the request, or one of its elements."""
        name = CLUSTER_NAME if not self.names else getattr(source, self.names.rpartition(".")[2])
        return access.may(self.operation, self.resource, name)


def on_cluster(operation: Operation, remark: str = "", *, silent: bool = False) -> Check:
    """Return the check of an operation on the cluster."""
    return Check(operation, ResourceType.CLUSTER, remark=remark, silent=silent)


class Call(NamedTuple):
    """One request on its way to its handler.

    - `serve` calls the handler, with a request and with what gets its answer.
    - `run` runs steps that are left when an answer comes later.
    - `refuse` returns the answer that refuses a request that the controller decides.
    - `broker` is None on a controller's listener.
    """

    access: Access
    request: Any
    version: int
    answer: Answer
    serve: Callable[[Message, Answer], Steps | None]
    run: Callable[[Steps], None]
    refuse: Callable[[Message, ErrorCode, str], Message]
    image: MetadataImage = EMPTY
    broker: "Broker | None" = None

    def pass_on(self, request: Message, answer: Answer) -> Steps:
        """Serve `request` in steps."""
        steps = self.serve(request, answer)
        if steps is not None:
            yield from steps

    def filtered(self, change: Callable[[Any], Steps]) -> Answer:
        """Return what gets the handler's response, changes it in steps, and answers with it."""
        def finish(response: Message) -> Steps:
            yield from change(response)
            self.answer(response)

        return lambda response: self.run(finish(response))


Refuse = Callable[[Call, Any, ErrorCode], Message | Generator[None, None, Message]]


def response_of(request: Message, **fields: object) -> Message:
    """Return a response to a request, with these fields."""
    create: Callable[..., Message] = API_BY_KEY[request.API_KEY].response
    return create(**fields)


def plainly(_call: Call, request: Message, code: ErrorCode) -> Message:
    """Refuse with the error of the whole response."""
    return response_of(request, error_code=code)


def with_message(_call: Call, request: Message, code: ErrorCode) -> Message:
    """Refuse with the error of the whole response and its message."""
    return response_of(request, error_code=code, error_message=code.message)


def as_controller(call: Call, request: Message, code: ErrorCode) -> Message:
    """Refuse as the controller does."""
    return call.refuse(request, code, code.message)


class Place(Enum):
    """Place of the refused elements in an answer, as in Kafka's."""

    FIRST = "first"
    LAST = "last"
    AS_REQUESTED = "as requested"


class Inner(NamedTuple):
    """Elements inside an element, each with its own error: their arrays in request and response, and the function that
    creates a refused one."""

    request: str
    response: str
    deny: Callable[[ErrorCode, Any], Any]


class Elements(NamedTuple):
    """Elements of a request that are checked one by one. Refused ones do not reach the handler.

    - `request` and `response` are their arrays. `deny` creates the result of a refused one, `inner` those inside it.
    - `pick` selects the check of an element where not all have the same; None: none.
    - `name` returns the name in an element that does not always have it; None: the element passes.
    - `unless`: a permission with which all elements pass.
    - `always`: the handler is called without any element, too, and its error is that of the whole answer.
    """

    request: str
    response: str
    check: Check
    deny: Callable[[ErrorCode, Any], Any]
    inner: Inner | None = None
    place: Place = Place.LAST
    pick: Callable[[Call, Any], Check | None] | None = None
    name: Callable[[Call, Any], str | None] | None = None
    unless: Check | None = None
    always: bool = False


class Hides(NamedTuple):
    """Elements of a response that are removed without a permission, which `check` names in their field. `unless`: a
    permission with which all remain."""

    response: str
    check: Check
    unless: Check | None = None


class Row(NamedTuple):
    """Needs of one API.

    - `needs`: conditions for the whole request. One check of each must pass; the error is that of the last one.
    - `refuse` creates the answer to a request that is refused as a whole.
    - `elements`, `hides`: see there.
    - `by`: further checks: those of `serve`, of the API's handler, or of elements of another type.
    - `serve` serves the request where the other fields do not say everything.
    - `open_because`: why the API needs no permission.
    """

    needs: tuple[tuple[Check, ...], ...] = ()
    refuse: Refuse = plainly
    elements: Elements | None = None
    hides: Hides | None = None
    by: tuple[Check, ...] = ()
    serve: Callable[[Call], Steps | None] | None = None
    open_because: str = ""

    def checks(self) -> list[Check]:
        """Return all checks, for the documentation."""
        found = [each for need in self.needs for each in need]
        if self.elements is not None:
            found += [each for each in (self.elements.unless, self.elements.check) if each is not None]
        if self.hides is not None:
            found += [each for each in (self.hides.unless, self.hides.check) if each is not None]
        return [*found, *self.by]
