"""Execution of a row of the table: a request is checked, served as far as it is allowed, and answered."""

from collections.abc import Generator, Iterable
from functools import partial
from typing import Any, NamedTuple

from kraft.broker.access.rules import Call, Check, Elements, Hides, Inner, Place, Row, response_of
from kraft.broker.api import STEP, Steps, each_step
from kraft.broker.request_parts import PLANS, serve_in_parts
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message


def serve_checked(row: Row, call: Call) -> Steps | None:
    """Serve a request as far as its client may. What is left to do is returned as steps."""
    refusal = _refusal(row, call)
    if refusal is not None:
        return refuse_whole(row, call, refusal)
    if row.serve is not None:
        return row.serve(call)
    if row.elements is not None:
        return serve_elements(row.elements, call)
    if row.hides is not None and not _passes(row.hides.unless, call):
        return call.serve(call.request, call.filtered(partial(keep_allowed, row.hides, call)))
    return call.serve(call.request, call.answer)


def _refusal(row: Row, call: Call) -> ErrorCode | None:
    for need in row.needs:
        if not any(check.passes(call.access, call.request) for check in need):
            return need[-1].error
    return None


def _passes(check: Check | None, call: Call) -> bool:
    return check is not None and check.passes(call.access, call.request)


def refuse_whole(row: Row, call: Call, code: ErrorCode) -> Steps:
    """Refuse a request, in parts where it is one that is divided."""
    if call.request.API_KEY not in PLANS:
        refusal = row.refuse(call, call.request, code)
        call.answer((yield from refusal) if isinstance(refusal, Generator) else refusal)
        return

    def refuse(part: Message) -> Message:
        refusal = row.refuse(call, part, code)
        assert isinstance(refusal, Message), "a part is refused at once"
        return refusal

    yield from serve_in_parts(call.request, lambda part, answer: answer(refuse(part)), call.answer, call.run,
                              lambda part, _why: refuse(part), call.image)


def serve_elements(rule: Elements, call: Call) -> Steps:
    """Serve the elements of a request that its client may name, and refuse the others."""
    divided = yield from divide(rule, call, getattr(call.request, rule.request) or ())
    if not divided.denied:
        yield from call.pass_on(call.request, call.answer)
        return
    refused = yield from denials(rule, divided)
    if not divided.allowed and not rule.always:
        call.answer(response_of(call.request, **{rule.response: refused}))
        return
    request = call.request.replace(**{rule.request: divided.allowed})
    yield from call.pass_on(request, call.filtered(partial(_merge, rule, divided.errors, refused)))


class Divided(NamedTuple):
    """Elements that the client may name, the others, and the error of each in the order of the request: NONE for those
    that it may name."""

    allowed: list[Any]
    denied: list[Any]
    errors: list[ErrorCode]


def divide(rule: Elements, call: Call, elements: Any) -> Generator[None, None, Divided]:
    """Divide the elements of a request."""
    found = Divided([], [], [])
    is_open = _passes(rule.unless, call)
    for each in elements:
        check = None if is_open else rule.check if rule.pick is None else rule.pick(call, each)
        if check is None or _is_allowed(rule, check, call, each):
            found.allowed.append(each)
            found.errors.append(ErrorCode.NONE)
        else:
            found.denied.append(each)
            found.errors.append(check.error)
        yield
    return found


def _is_allowed(rule: Elements, check: Check, call: Call, element: Any) -> bool:
    if rule.name is not None:
        name = rule.name(call, element)
        return name is None or call.access.may(check.operation, check.resource, name)
    if check.names and isinstance(element, str):
        return call.access.may(check.operation, check.resource, element)
    return check.passes(call.access, element)


def denials(rule: Elements, divided: Divided) -> Generator[None, None, list[Any]]:
    """Return the results of refused elements."""
    codes = (code for code in divided.errors if code != ErrorCode.NONE)
    return (yield from deny_all(rule, zip(divided.denied, codes, strict=True)))


def deny_all(rule: Elements, denied: Iterable[tuple[Any, ErrorCode]]) -> Generator[None, None, list[Any]]:
    """Return the results of elements that are refused with these errors."""
    results = []
    for element, code in denied:
        result = rule.deny(code, element)
        if rule.inner is not None:
            yield from deny_inner(rule.inner, code, element, result)
        results.append(result)
        yield
    return results


def deny_inner(inner: Inner, code: ErrorCode, element: Any, result: Any) -> Steps:
    """Put the results of what is inside a refused element into its result."""
    found = yield from each_step(partial(inner.deny, code), getattr(element, inner.request))
    setattr(result, inner.response, found)


def _merge(rule: Elements, errors: list[ErrorCode], refused: list[Any], response: Any) -> Steps:
    served = getattr(response, rule.response)
    if rule.always and response.error_code:
        return
    if rule.place is Place.FIRST:
        merged = [*refused, *served]
    elif rule.place is Place.LAST:
        merged = [*served, *refused]
    else:
        merged = yield from as_requested(errors, served, refused)
    setattr(response, rule.response, merged)
    yield


def as_requested(errors: list[ErrorCode], served: list[Any], refused: list[Any]) -> Generator[None, None, list[Any]]:
    """Return the results in the order of the request, whose elements have these errors. A handler that has answered
    elements once that occur several times has fewer results: those are followed by the refused ones then."""
    if len(served) + len(refused) != len(errors):
        return [*served, *refused]
    left, others = iter(served), iter(refused)
    merged = []
    for number, code in enumerate(errors):
        merged.append(next(left if code == ErrorCode.NONE else others))
        if number % STEP == 0:
            yield
    return merged


def keep_allowed(rule: Hides, call: Call, struct: Any) -> Steps:
    """Remove from an array what the client may not know of."""
    kept = []
    for each in getattr(struct, rule.response):
        if rule.check.passes(call.access, each):
            kept.append(each)
        yield
    setattr(struct, rule.response, kept)
