"""Every house rule has its own test, and the tree keeps all of them."""

from pathlib import Path

import pytest

from tools import tidy, tree


def found(check: tidy.Check, name: str, text: str) -> list[tidy.Breach]:
    return list(check(Path(name), text))


@pytest.mark.house
def test_the_tree_is_tidy() -> None:
    broken = [f"{path.relative_to(tree.ROOT)}:{line}: {what}"
              for path in tree.files() for line, what in tidy.breaches(path)]
    assert not broken, "\n".join(broken)


def test_the_tree_is_seen() -> None:
    names = {str(path.relative_to(tree.ROOT)) for path in tree.files()}
    assert {"setup.py", "Makefile", ".ci/run", "kraft_native/base/crc.pyx",
            "kraft_native/_c/file/file_io.c"} <= names
    assert not [name for name in names if name.endswith((".so", ".pyc")) or name == "kraft_native/base/crc.c"]


def test_file_lines() -> None:
    assert not found(tidy.check_file_lines, "a.py", "x\n" * 600)
    assert found(tidy.check_file_lines, "a.pyx", "x\n" * 601)
    assert not found(tidy.check_file_lines, "a.md", "x\n" * 601)


def python_function(lines: int) -> str:
    return "class A:\n    def f(self):\n" + "        x = 1\n" * (lines - 1)


def cython_function(lines: int) -> str:
    return ("cdef class A:\n    cdef int f(\n            self,\n            int b) except -1 nogil:  # why\n"
            + "        x = 1\n\n" * ((lines - 3) // 2) + "        y = 1\n" * ((lines - 3) % 2) + "    cdef int b\n")


@pytest.mark.parametrize(("name", "make"), [("a.py", python_function), ("a.pyx", cython_function)])
def test_function_lines(name: str, make) -> None:
    assert not found(tidy.check_function_lines, name, make(70))
    assert found(tidy.check_function_lines, name, make(72)) == [(2, "f has 72 lines, 70 allowed")] or name == "a.pyx"
    assert found(tidy.check_function_lines, name, make(80))


def test_cython_functions_are_found_by_indentation() -> None:
    text = ("cdef enum:\n    A = 1\n"
            "cdef int declared(int a) except -1\n"
            "cdef int one(int a) except -1:\n    return a\n\n\n"
            "def two(a, b=(1, 2)):\n    def three():\n        return 3\n\n    return three\n\n"
            "cdef class K:\n    cdef int x\n    cpdef int four(self):\n        return 4\n")
    assert list(tidy.cython_functions(text)) == [("one", 4, 5), ("two", 8, 12), ("three", 9, 10), ("four", 16, 17)]


def test_columns() -> None:
    assert not found(tidy.check_columns, "a.c", "x" * 120 + "\n")
    assert found(tidy.check_columns, "a.c", "\n" + "x" * 121 + "\n") == [(2, "121 columns, 120 allowed")]


@pytest.mark.parametrize("text", ["a\tb\n", "a\r\n", "a \n", "a", "a\n\n"])
def test_whitespace(text: str) -> None:
    assert found(tidy.check_whitespace, "a.py", text)
    assert not found(tidy.check_whitespace, "a.py", "a\n\nb\n")


def test_a_makefile_has_tabs() -> None:
    assert not found(tidy.check_whitespace, "Makefile", "a:\n\tb\n")


@pytest.mark.parametrize("word", tidy.BANNED_WORDS)
def test_banned_words(word: str) -> None:
    assert found(tidy.check_banned_words, "a.md", f"\n# {word}: later\n")
    assert not found(tidy.check_banned_words, "a.md", f"_{word}s\n")


@pytest.mark.parametrize("text", ["no title\n", "\n# late\n", "# one\n# two\n", "# one\n### three\n", ""])
def test_markdown_title(text: str) -> None:
    assert found(tidy.check_markdown_title, "a.md", text)


def test_markdown_title_of_a_sound_document() -> None:
    assert not found(tidy.check_markdown_title, "a.md", "# a\n## b\n```sh\n# not a title\n```\n### c\n## d\n")


DIGEST = "    --hash=sha256:" + "0a" * 32
SOUND_LOCK = (f"# made by make lock\na==1.0 \\\n{DIGEST}\n"
              f"b-c==2.1.post1 ; python_version < '3.12' \\\n{DIGEST} \\\n{DIGEST}\n")


@pytest.mark.parametrize("lines", [
    "--index-url https://example", f"a>=1 \\\n{DIGEST}", "a==1", "a==1 \\\n    --hash=sha256:0",
    "a @ file:///b", "-e .", DIGEST,
])
def test_lock(lines: str) -> None:
    assert found(tidy.check_lock, "requirements.lock", f"{SOUND_LOCK}{lines}\n")
    assert not found(tidy.check_lock, "requirements.lock", SOUND_LOCK)


def test_large_file(tmp_path: Path) -> None:
    path = tmp_path / "blob.bin"
    path.write_bytes(bytes(tidy.FILE_BYTES_MAX))
    assert not list(tidy.breaches(path))
    path.write_bytes(bytes(tidy.FILE_BYTES_MAX + 1))
    assert list(tidy.breaches(path))


def test_text_is_utf8(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"# \xff\n")
    with pytest.raises(UnicodeDecodeError):
        list(tidy.breaches(path))


@pytest.mark.parametrize("text", [
    "answer = Response(error_code=3)", "assert response.error_code == 0", "assert 3 == response.error_code",
    "assert (one.name, one.topic_error_code) == ('a', -1)", "def refuse(error_code: int = 0): pass",
    "def refuse(*, error_code: int = 0): pass", "assert [one.error_code for one in found] == [0]",
    "assert [(one.name, one.error_code) for one in found] == [('a', 6)]", "if part.error_code in (3, 100): pass",
    "error_code = 3", "error_code: int = 3", "version = ApiVersion(api_key=18)",
    "assert (header.request_api_key, header.version) == (1, 17)",
])
def test_codes_without_a_name(text: str) -> None:
    assert {line for line, _ in found(tidy.check_codes, "a.py", text + "\n")} == {1}


@pytest.mark.parametrize("text", [
    "answer = Response(error_code=ErrorCode.NONE, api_key=ApiKey.FETCH)", "assert response.error_code == 12_345",
    "assert error_code >= 0", "assert (one.error_code, one.count) == (ErrorCode.NONE, 3)", "assert exit_code == 0",
    "error_code = read_i16()", "assert done.error_code == code", "def send(api_key: int, version: int = 3): pass",
])
def test_codes_with_a_name_and_other_numbers(text: str) -> None:
    assert not found(tidy.check_codes, "a.py", text + "\n")
    assert not found(tidy.check_codes, "a.md", "error_code = 3\n")
