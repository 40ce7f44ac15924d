"""`kraft users`."""

from pathlib import Path

from tests.cli.nodes import Tool


def test_a_user_from_its_addition_to_its_removal(tool: Tool, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("s3cret\n")
    both = ("--mechanism", "SCRAM-SHA-256", "--mechanism", "SCRAM-SHA-512")
    row = {"user": "ada", "mechanism": "SCRAM-SHA-256", "iterations": 4_096}
    assert tool.json("users", "add", "ada", "--password-file", password) == [row]
    rows = [{**row, "iterations": 8_192}, {**row, "mechanism": "SCRAM-SHA-512", "iterations": 8_192}]
    assert tool.json("users", "add", "ada", *both, "--iterations", 8_192, "--password-file", password) == rows
    assert [each for each in tool.json("users", "list") if each["user"] == "ada"] == rows
    assert tool.json("users", "remove", "ada", "--mechanism", "SCRAM-SHA-256") == rows[:1]
    assert tool.json("users", "describe", "ada") == rows[1:]
    code, out, _ = tool.run("users", "remove", "ada")
    assert (code, out.split()) == (0, ["USER", "MECHANISM", "ITERATIONS", "ada", "SCRAM-SHA-512", "8192"])
    code, _, error = tool.run("users", "describe", "ada")
    assert code == 1
    assert "user ada: the user has no SCRAM credentials (RESOURCE_NOT_FOUND)" in error
    password.write_text("\n")
    assert tool.run("users", "add", "ada", "--password-file", password)[0] == 2
