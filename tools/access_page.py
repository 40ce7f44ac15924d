"""`python -m tools.access_page` writes the table of `docs/internals/access.md` from the table in the code."""

from kraft.broker.access.rules import Check, Row
from kraft.broker.access.table import ON_CONTROLLERS, ROWS
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.apis import API_BY_KEY
from tools.tree import ROOT

PAGE = ROOT / "docs" / "internals" / "access.md"
HEAD = "| API | operation | resource | error | remark |"
KINDS = {kind.name: kind.name.lower().replace("_", " ") for kind in {check.resource for row in ROWS.values()
                                                                     for check in row.checks()}}


def _resource(check: Check) -> str:
    kind = KINDS[check.resource.name]
    return f"{kind}, `{check.names}`" if check.names else kind


def _lines(name: str, row: Row) -> list[str]:
    if row.open_because:
        return [f"| {name} | none | | | {row.open_because} |"]
    lines = []
    for check in dict.fromkeys(row.checks()):
        error = "" if check.silent else check.error.name
        lines.append(f"| {name} | {check.operation.name} | {_resource(check)} | {error} | {check.remark} |")
        name = ""
    return lines


def markdown() -> str:
    """Return the table."""
    lines = [HEAD, "|---|---|---|---|---|"]
    for key, row in sorted(ROWS.items()):
        name = f"{API_BY_KEY[key].name} ({int(key)})"
        lines += _lines(name, row)
        if key in ON_CONTROLLERS:
            lines += _lines(f"{API_BY_KEY[key].name}, to a controller", ON_CONTROLLERS[ApiKey(key)])
    return "\n".join(lines) + "\n"


def main() -> None:
    before, _, rest = PAGE.read_text().partition(HEAD)
    _, _, after = rest.partition("\n\n")
    PAGE.write_text(before + markdown() + (f"\n{after}" if after else ""))


if __name__ == "__main__":
    main()
