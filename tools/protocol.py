"""Writes the generated part of `kraft.protocol` from the schemas.

`python -m tools.protocol` writes what differs; with `--check` it writes nothing and ends with 1 when anything would.
"""

import sys
from pathlib import Path

from tools.message_code import MessageCode
from tools.protocol_tables import api_keys_text, apis_text, errors_text, record_types_text
from tools.schema import load_all
from tools.tree import ROOT

PROTOCOL = ROOT / "kraft" / "protocol"
MESSAGES = PROTOCOL / "messages"

MESSAGES_DOC = '''"""One module per message, made by tools/protocol.py from `schemas/messages`.

Nothing is imported here, so that a program that needs ten messages does not load three hundred.
"""
'''


def generated() -> dict[Path, str]:
    """Every generated file with its text."""
    schemas = {schema.name: schema for schema in load_all()}
    texts = {MESSAGES / f"{schema.module}.py": MessageCode(schema).text() for schema in schemas.values()}
    texts[MESSAGES / "__init__.py"] = MESSAGES_DOC
    texts[PROTOCOL / "api_keys.py"] = api_keys_text()
    texts[PROTOCOL / "apis.py"] = apis_text(schemas)
    texts[PROTOCOL / "error_codes.py"] = errors_text()
    texts[PROTOCOL / "record_types.py"] = record_types_text(schemas)
    return texts


def outdated(texts: dict[Path, str]) -> list[Path]:
    """Files that are missing or differ, and files that no schema stands behind any more."""
    differing = [path for path, text in texts.items() if not path.exists() or path.read_text("utf-8") != text]
    return differing + [path for path in sorted(MESSAGES.glob("*.py")) if path not in texts]


def main(arguments: list[str]) -> int:
    texts = generated()
    stale = outdated(texts)
    check = "--check" in arguments
    for path in stale:
        print(f"{path.relative_to(ROOT)}: {'outdated' if check else 'written' if path in texts else 'removed'}")
        if check:
            continue
        if path in texts:
            path.write_text(texts[path], "utf-8")
        else:
            path.unlink()
    print(f"protocol: {len(texts)} files, {len(stale)} outdated")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
