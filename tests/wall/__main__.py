"""Run the products that people put beside Kafka against our cluster: `python -m tests.wall`.

Prints a table. The exit code is 1 when a product fails. `--page` writes the table into docs/interop.md.
"""

import argparse
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Final, NamedTuple

HERE: Final = Path(__file__).parent
PAGE: Final = Path("docs/interop.md")
BEGIN: Final = "<!-- wall: begin -->"
END: Final = "<!-- wall: end -->"
PRODUCT_SECONDS: Final = 1_800
REASON_CHARS: Final = 200


class Product(NamedTuple):
    """One product: its test, or the reason for which there is none."""

    name: str
    tests: str = ""
    shown: str = ""
    lacking: str = ""


class Result(NamedTuple):
    """`outcome`: passed, failed, or not run with its reason."""

    product: Product
    outcome: str
    seconds: float


def products() -> list[Product]:
    return [Product(**each) for each in tomllib.loads((HERE / "products.toml").read_text())["product"]]


def run(product: Product) -> Result:
    """Run the test of a product. A skipped test is not a pass."""
    if product.lacking:
        return Result(product, f"not run: {product.lacking}", 0.0)
    begun = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:benchmark", "-m", "", "-rs",
               *product.tests.split()]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=PRODUCT_SECONDS)
    seconds = time.monotonic() - begun
    skipped = re.search(r"^SKIPPED.*?: (?:\d+: )?(.*)$", done.stdout, re.MULTILINE)
    if done.returncode:
        sys.stderr.write(done.stdout)
        return Result(product, "failed", seconds)
    if skipped is not None:
        return Result(product, f"not run: {skipped[1][:REASON_CHARS]}", seconds)
    return Result(product, "passed", seconds)


def write_page(results: list[Result]) -> None:
    """Write the table between its two marks."""
    rows = ["| product | result | what the test shows |", "|---|---|---|"]
    rows += [f"| {each.product.name} | {each.outcome} | {each.product.shown} |" for each in results]
    before, rest = PAGE.read_text().split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{chr(10).join(rows)}\n{END}{after}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--product", default="", help="run those whose name contains this text")
    parser.add_argument("--page", action="store_true", help=f"write the table into {PAGE}")
    given = parser.parse_args()
    results = []
    for product in products():
        if given.product.lower() in product.name.lower():
            results.append(run(product))
            print(f"{product.name:40} {results[-1].seconds:6.0f} s  {results[-1].outcome}", flush=True)
    if given.page:
        write_page(results)
    return int(any(each.outcome == "failed" for each in results))


if __name__ == "__main__":
    raise SystemExit(main())
