"""Execution of a row of the table: a request is checked, served as far as it is allowed, and answered."""

from collections import deque
from collections.abc import Generator
from functools import partial
from typing import Any

from kraft.broker.access.rules import Call, Check, Elements, Hides, Inner, Place, Row, response_of
from kraft.broker.api import STEP, Steps, each_step, sorted_steps
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
        return call.serve(call.request, call.filtered(partial(_hide, row.hides, call)))
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
    allowed, denied = yield from divide(rule, call, getattr(call.request, rule.request) or ())
    if not denied:
        yield from call.pass_on(call.request, call.answer)
        return
    refused = yield from denials(rule, denied)
    if not allowed and not rule.always:
        call.answer(response_of(call.request, **{rule.response: refused}))
        return
    request = call.request.replace(**{rule.request: allowed})
    yield from call.pass_on(request, call.filtered(partial(_merge, rule, call, refused)))


def divide(rule: Elements, call: Call, elements: Any
           ) -> Generator[None, None, tuple[list[Any], list[tuple[Any, ErrorCode]]]]:
    """Return the elements that the client may name, and the others with the error of each."""
    if _passes(rule.unless, call):
        return list(elements), []
    allowed, denied = [], []
    for each in elements:
        check = rule.check if rule.pick is None else rule.pick(call, each)
        if check is None or _is_allowed(rule, check, call, each):
            allowed.append(each)
        else:
            denied.append((each, check.error))
        yield
    return allowed, denied


def _is_allowed(rule: Elements, check: Check, call: Call, element: Any) -> bool:
    if rule.name is not None:
        name = rule.name(call, element)
        return name is None or call.access.may(check.operation, check.resource, name)
    if check.names and isinstance(element, str):
        return call.access.may(check.operation, check.resource, element)
    return check.passes(call.access, element)


def denials(rule: Elements, denied: list[tuple[Any, ErrorCode]]) -> Generator[None, None, list[Any]]:
    """Return the results of refused elements."""
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


def _merge(rule: Elements, call: Call, refused: list[Any], response: Any) -> Steps:
    served = getattr(response, rule.response)
    if rule.always and response.error_code:
        return
    if rule.place is Place.FIRST:
        merged = [*refused, *served]
    elif rule.place is Place.LAST:
        merged = [*served, *refused]
    else:
        merged = yield from as_requested(rule, getattr(call.request, rule.request), [*served, *refused])
    setattr(response, rule.response, merged)
    yield


def as_requested(rule: Elements, elements: Any, results: list[Any]) -> Generator[None, None, list[Any]]:
    """Return the results in the order in which the request names their elements. An element that is named several times
    may have a result for each time, or one."""
    places: dict[object, deque[int]] = {}
    for number, each in enumerate(elements):
        places.setdefault(getattr(each, rule.key) if rule.key else each, deque()).append(number)
        if number % STEP == 0:
            yield
    key = rule.result_key or rule.key
    numbered = []
    for number, each in enumerate(results):
        named = places[getattr(each, key)]
        numbered.append((named.popleft() if len(named) > 1 else named[0], number))
        if number % STEP == 0:
            yield
    order = yield from sorted_steps(numbered)
    return [results[number] for _place, number in order]


def _hide(rule: Hides, call: Call, response: Any) -> Steps:
    yield from keep_allowed(rule, call, response)


def keep_allowed(rule: Hides, call: Call, struct: Any) -> Steps:
    """Remove from an array what the client may not know of."""
    kept = []
    for each in getattr(struct, rule.response):
        if rule.check.passes(call.access, each):
            kept.append(each)
        yield
    setattr(struct, rule.response, kept)
