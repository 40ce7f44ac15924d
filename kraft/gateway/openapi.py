"""The gateway's own description: an OpenAPI document, and a page of it without scripts or anything from a network."""

from html import escape
from typing import Any, Final

from kraft._version import __version__
from kraft.gateway.settings import Limits, Login

RECORD: Final = {
    "type": "object", "description": "One of value, value_base64 and value_json is required; at most one key.",
    "properties": {
        "value": {"type": ["string", "null"], "description": "Text; null is Kafka's null."},
        "value_base64": {"type": "string", "description": "Any bytes, in Base64."},
        "value_json": {"description": "Any JSON, stored as compact text."},
        "key": {"type": ["string", "null"]}, "key_base64": {"type": "string"}, "key_json": {},
        "headers": {"description": "An object of texts, or a list of objects with name, and value or value_base64."},
        "partition": {"type": "integer", "minimum": 0, "description": "Without it the key decides."},
        "timestamp_ms": {"type": "integer", "minimum": 1, "description": "Milliseconds since 1970; now without it."},
        "offset": {"type": "integer", "description": "Of no effect: an event has it."},
    }}
STORED: Final = {"type": "object", "properties": {"partition": {"type": "integer"}, "offset": {"type": "integer"}}}
ERROR: Final = {"type": "object", "properties": {"error": {"type": "object", "properties": {
    "code": {"type": "string", "description": "Kafka's name of the error."}, "message": {"type": "string"}}}}}
TOPIC: Final = {"name": "topic", "in": "path", "required": True, "schema": {"type": "string"}}


def _query(name: str, text: str, kind: str = "string") -> dict[str, Any]:
    return {"name": name, "in": "query", "description": text, "schema": {"type": kind}}


def _header(name: str, text: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "description": text, "schema": {"type": "string"}}


def _answer(text: str, schema: dict[str, Any], kind: str = "application/json") -> dict[str, Any]:
    return {"description": text, "content": {kind: {"schema": schema}}}


def _produce() -> dict[str, Any]:
    return {
        "summary": "Produce records", "operationId": "produce",
        "description": "All in-sync replicas have the records when the answer comes.",
        "parameters": [
            TOPIC, _query("key", "Key of a raw body, as text."), _query("partition", "Of a raw body.", "integer"),
            _query("timestamp_ms", "Of a raw body.", "integer"),
            _header("Idempotency-Key", "A repeated request gets the first one's answer, from this process's memory."),
            _header("Kafka-Header-NAME", "A header of a raw body's record; names are in lower case.")],
        "requestBody": {"required": True, "content": {
            "application/json": {"schema": {"oneOf": [RECORD, {"type": "object", "properties": {
                "records": {"type": "array", "items": RECORD}}}]}},
            "application/x-ndjson": {"schema": {"type": "string", "description": "A record in each line."}},
            "*/*": {"schema": {"type": "string", "format": "binary", "description": "The value of one record."}}}},
        "responses": {
            "200": _answer("Each record is stored.", {"type": "object", "properties": {
                "records": {"type": "array", "items": STORED}}}),
            "207": _answer("Some records are stored, in the order of the request; the others have an error.",
                           {"type": "object", "properties": {"records": {"type": "array", "items": {
                               "oneOf": [STORED, ERROR]}}}}),
            "default": _answer("No record is stored, unless the status is 5xx.", ERROR)}}


def _events() -> dict[str, Any]:
    return {
        "summary": "Consume records as server-sent events", "operationId": "consume",
        "description": "Event names: none for a record; `gap`: offsets that retention removed; `error`: the end. The "
                       "id has the next offset of each partition.",
        "parameters": [
            TOPIC, _query("partition", "May be given again; all without it.", "integer"),
            _query("from", "beginning, end (default), an offset, or time:MILLISECONDS."),
            _query("key", "Only records with this key; may be given again."),
            _query("key_prefix", "Or with keys that begin so; may be given again."),
            _query("last_event_id", "As the header, for the first request of a browser."),
            _header("Last-Event-ID", "Continue after this event.")],
        "responses": {"200": _answer("Events, indefinitely.", {"type": "string"}, "text/event-stream"),
                      "416": _answer("An offset is past the end.", ERROR), "default": _answer("Refused.", ERROR)}}


def _topic() -> dict[str, Any]:
    return {"summary": "Partitions of a topic, and their offsets", "operationId": "describeTopic",
            "parameters": [TOPIC], "responses": {"200": _answer("The topic.", {"type": "object"}),
                                                 "default": _answer("Refused.", ERROR)}}


def document(limits: Limits, login: Login) -> dict[str, Any]:
    """Return the OpenAPI document of a gateway."""
    scheme = "basic" if login == "user" else "bearer"
    return {
        "openapi": "3.1.0",
        "info": {"title": "kraft gateway", "version": __version__, "description": (
            f"A body has at most {limits.body_bytes} bytes and {limits.records} records.")},
        "paths": {
            "/topics/{topic}/records": {"post": _produce()}, "/topics/{topic}/events": {"get": _events()},
            "/topics/{topic}": {"get": _topic()},
            "/health": {"get": {"summary": "Whether the gateway runs", "operationId": "health",
                                "responses": {"200": {"description": "It does."}}}}},
        "components": {"securitySchemes": {"login": {"type": "http", "scheme": scheme}}},
        "security": [{"login": []}, {}]}


STYLE: Final = ("body{font:16px/1.5 sans-serif;max-width:50em;margin:2em auto;padding:0 1em;color-scheme:light dark}"
                "code{font-size:.95em}dt{font-weight:bold}section{border-top:1px solid;margin-top:2em}")


def page(found: dict[str, Any]) -> str:
    """Return the document as a page."""
    parts = ["<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=width=device-width>",
             f"<title>kraft gateway</title><style>{STYLE}</style><main><h1>kraft gateway {escape(__version__)}</h1>",
             f"<p>{escape(found['info']['description'])} <a href=openapi.json>openapi.json</a></p>"]
    for path, methods in found["paths"].items():
        for method, operation in methods.items():
            parts.append(_section(path, method, operation))
    return "".join([*parts, "</main></html>"])


def _section(path: str, method: str, operation: dict[str, Any]) -> str:
    lines = [f"<section><h2>{escape(operation['summary'])}</h2><p><code>{method.upper()} {escape(path)}</code></p>",
             f"<p>{escape(operation.get('description', ''))}</p><dl>"]
    lines += [f"<dt><code>{escape(each['name'])}</code> ({each['in']})</dt>"
              f"<dd>{escape(each.get('description', ''))}</dd>"
              for each in operation.get("parameters", ())]
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        lines.append(f"<dt>body <code>{escape(kind)}</code></dt><dd>{_shown(content['schema'])}</dd>")
    lines += [f"<dt>answer {status}</dt><dd>{escape(each['description'])}</dd>"
              for status, each in operation["responses"].items()]
    return "".join([*lines, "</dl></section>"])


def _shown(schema: dict[str, Any]) -> str:
    """Return the fields of a schema, with their descriptions."""
    if "oneOf" in schema:
        return " or ".join(_shown(each) for each in schema["oneOf"])
    fields = [f"<code>{escape(name)}</code> {escape(each.get('description', ''))}".strip()
              for name, each in schema.get("properties", {}).items()]
    return escape(schema.get("description", "")) + (f" {'; '.join(fields)}" if fields else "")
