"""Type stub of a compiled module, derived from its sources.

Names, defaults and most types are those of the `.pyx` and `.pxd`. C numbers are `int`, `bool` or `float`; extension
types are themselves. A type that C does not have is written where the thing is:

- parameters, results and constants have annotations: `str origin: Literal["client", "raft"] = "client"`;
- fields and `cpdef` functions, where Cython allows no annotation, have a comment `# type: dict[int, int]` on their
  line or on the one before, and `# type: (list[Buffer]) -> int`.

A public name without a complete type is an error. Fields that Python cannot set are properties.
"""

import ast
import builtins
import re
from collections.abc import Iterator
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from Cython.Compiler import Errors, ExprNodes, Nodes, Parsing
from Cython.Compiler.Scanning import PyrexScanner, StringSourceDescriptor
from Cython.Compiler.TreeFragment import StringParseContext

TYPE_COMMENT = re.compile(r"# type: (?P<type>.*?)(?:  # .*)?$")
FUNCTION_COMMENT = re.compile(r"# type: \((?P<parameters>.*)\) -> (?P<result>.*)$")
PRIVATE = re.compile(r"_(?!_.*__$)")

# Names that annotations may use without an import in the module.
HOMES = {
    "Buffer": "typing_extensions", "NDArray": "numpy.typing", "PathLike": "os", "SSLContext": "ssl", "SSLError": "ssl",
    "TracebackType": "types",
    "UUID": "uuid", "WeakSet": "weakref",
    **dict.fromkeys(("Callable", "Collection", "Container", "Generator", "Iterable", "Iterator", "Mapping", "Sequence"),
                    "collections.abc"),
    **dict.fromkeys(("Any", "Final", "Literal", "NamedTuple", "Self", "TypeVar", "Unpack", "final"), "typing"),
    "disjoint_base": "typing_extensions",
}
GENERIC = frozenset({"dict", "frozenset", "list", "object", "set", "tuple", "type"})
# Bases that a compiled class names without the type of their elements.
ANY_ELEMENTS = {"list": "list[Any]"}
NUMBERS = {"bint": "bool", "double": "float", "float": "float"}

# What Python calls a special method takes by position; the type of its result is one for all.
RESULTS = {
    "__init__": "None", "__len__": "int", "__bytes__": "bytes", "__contains__": "bool", "__hash__": "int",
    "__eq__": "bool", "__setitem__": "None", "__exit__": "None", "__enter__": "Self",
}
HIDDEN = frozenset({"__dealloc__", "__releasebuffer__", "__repr__", "__str__"})
BUFFER = "def __buffer__(self, flags: int, /) -> memoryview: ..."


class StubError(Exception):
    """A public name whose type the sources do not give."""


class Sources(NamedTuple):
    """A module: its name, and the parsed `.pyx` and `.pxd` with their lines."""

    name: str
    module: Any
    lines: list[str]
    header: Any
    header_lines: list[str]


@cache
def parse(path: Path) -> Any:
    """Return Cython's tree of a source file; None when there is no such file."""
    if not path.exists():
        return None
    Errors.init_thread()
    text = path.read_text("utf-8")
    code = StringSourceDescriptor(str(path), text)
    context = StringParseContext(path.stem)
    context.set_language_level(3)
    scope = context.find_module(path.stem, pos=(code, 1, 0), need_pxd=False)
    scanner = PyrexScanner(StringIO(text), code, source_encoding="UTF-8", scope=scope, context=context,
                           initial_pos=(code, 1, 0))
    return Parsing.p_module(scanner, path.suffix == ".pxd", path.stem)


def statements(node: Any) -> Iterator[Any]:
    """Yield the statements of a module's or a class's body."""
    for each in getattr(node, "stats", (node,)):
        if isinstance(each, Nodes.StatListNode | Nodes.CDefExternNode):
            yield from statements(getattr(each, "body", each))
        else:
            yield each


def classes(tree: Any) -> dict[str, Any]:
    """Return the classes that a file defines, by name. `cimport` and `import` define none."""
    if tree is None:
        return {}
    return {node.class_name if isinstance(node, Nodes.CClassDefNode) else node.name: node
            for node in statements(tree.body) if isinstance(node, Nodes.CClassDefNode | Nodes.PyClassDefNode)}


def c_names(tree: Any) -> Iterator[str]:
    """Yield the names of a file's variables and constants in C, those that it cimports too."""
    for node in statements(tree.body):
        if isinstance(node, Nodes.CVarDefNode):
            yield from (each.name for each in node.declarators if isinstance(each, Nodes.CNameDeclaratorNode))
        elif isinstance(node, Nodes.CEnumDefNode):
            yield from (each.name for each in node.items or ())
        elif isinstance(node, Nodes.FromCImportStatNode):
            yield from (alias or name for _, name, alias in node.imported_names)


class Stub:
    """The text of one module's stub. `homes`: module of each class of the core, by the name of the class."""

    def __init__(self, sources: Sources, homes: dict[str, str]) -> None:
        self.sources = sources
        self.homes = homes
        self.declared = classes(sources.header)
        self.used: dict[str, None] = {}       # names of annotations, in the order of their use
        self.reexports: list[tuple[str, str]] = []
        self.imports: dict[str, str] = {}     # name -> module, of the file's own imports
        self.c_names = {name for tree in (sources.module, sources.header) if tree is not None for name in c_names(tree)}

    def text(self) -> str:
        lines: list[str] = []
        for node in statements(self.sources.module.body):
            lines += self.statement(node)
        local = set(classes(self.sources.module))
        imported: dict[str, set[str]] = {}
        variables = []
        for name in self.used:
            if name.startswith("_"):
                variables.append(f'{name} = TypeVar("{name}")')
                imported.setdefault("typing", set()).add("TypeVar")
            elif name not in local and not hasattr(builtins, name):
                imported.setdefault(self.home(name), set()).add(name)
        for module, name in self.reexports:
            imported.setdefault(module, set()).add(f"{name} as {name}")
        heads = [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(imported.items())]
        return "\n".join(["# Made by tools/stubs.py from the sources of the module: change those.", *heads, *variables,
                          *lines, ""])

    def home(self, name: str) -> str:
        found = HOMES.get(name) or self.homes.get(name) or self.imports.get(name)
        if found is None:
            raise StubError(f"{self.sources.name}: no module is known for the name {name!r} of an annotation")
        return found

    def use(self, type_text: str) -> str:
        """Note the names of an annotation, and return it."""
        try:
            tree = ast.parse(type_text, mode="eval")
        except SyntaxError:
            raise StubError(f"{self.sources.name}: {type_text!r} is not a type") from None
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                self.used[node.id] = None
        return type_text

    def statement(self, node: Any) -> list[str]:
        """Return the lines for a statement of the module."""
        if isinstance(node, Nodes.FromImportStatNode):
            self.note_import(node)
        elif isinstance(node, Nodes.CClassDefNode):
            return self.extension_class(node)
        elif isinstance(node, Nodes.PyClassDefNode):
            return self.python_class(node)
        elif isinstance(node, Nodes.SingleAssignmentNode):
            return self.constants(node)
        elif is_function(node) and not PRIVATE.match(function_name(node)):
            return self.function(node, None)
        return []

    def note_import(self, node: Any) -> None:
        module = node.module.module_name.value
        for name, _ in node.items:
            self.imports[name] = module
            if name.isupper() and module.startswith("kraft_native."):
                self.reexports.append((module, name))

    # --- constants --------------------------------------------------------------------------------------------------

    def constants(self, node: Any) -> list[str]:
        """Return the lines for an assignment: to one name, or to as many as there are values."""
        pairs = [(node.lhs, node.rhs)]
        if isinstance(node.lhs, ExprNodes.TupleNode) and isinstance(node.rhs, ExprNodes.TupleNode):
            pairs = list(zip(node.lhs.args, node.rhs.args, strict=True))
        return [line for target, value in pairs if isinstance(target, ExprNodes.NameNode)
                for line in self.constant(target, value)]

    def constant(self, target: Any, value: Any) -> list[str]:
        name = target.name
        if PRIVATE.match(name) or name in self.c_names or isinstance(value, ExprNodes.ImportNode):
            return []
        if target.annotation is not None:
            found = target.annotation.string.value
        elif isinstance(value, ExprNodes.NameNode) and value.name in self.c_names:
            found = "int"
        else:
            found = literal_type(value)
        if found is None:
            raise StubError(f"{self.sources.name}.{name}: a constant without an annotation")
        return [f"{name}: {self.use(f'Final[{found}]' if name.isupper() else found)}"]

    # --- classes ----------------------------------------------------------------------------------------------------

    def extension_class(self, node: Any) -> list[str]:
        name = node.class_name
        header = self.declared.get(name)
        decorators = [each.decorator.attribute for owner in (node, header) if owner is not None
                      for each in owner.decorators or () if hasattr(each.decorator, "attribute")]
        bases = [ANY_ELEMENTS.get(base.name, base.name) for base in node.bases.args]
        kind = "final" if "final" in decorators else "disjoint_base"
        heading = f"class {name}({', '.join(map(self.use, bases))}):" if bases else f"class {name}:"
        body: list[str] = []
        if header is not None:
            body += self.fields(header, self.sources.header_lines)
        body += self.fields(node, self.sources.lines)
        members = [each for each in statements(node.body) if is_function(each)]
        names = {function_name(each) for each in members}
        for each in members:
            special = function_name(each)
            if special == "__getbuffer__":
                body.append(BUFFER)
            elif not (PRIVATE.match(special) or special in HIDDEN or (special == "__cinit__" and "__init__" in names)):
                body += self.function(each, name)
        return [f"@{self.use(kind)}", heading, *(f"    {line}" for line in body or ["..."])]

    def fields(self, node: Any, lines: list[str]) -> Iterator[str]:
        for each in statements(node.body):
            if isinstance(each, Nodes.CVarDefNode) and each.visibility in ("public", "readonly"):
                for declarator in each.declarators:
                    hint = comment_type(lines, each.pos[1]) or self.c_type(each.base_type, declarator.name)
                    if each.visibility == "public":
                        yield f"{declarator.name}: {self.use(hint)}"
                    else:
                        yield "@property"
                        yield f"def {declarator.name}(self) -> {self.use(hint)}: ..."

    def python_class(self, node: Any) -> list[str]:
        bases = [self.use(base.name) for base in node.bases.args]
        lines = [f"class {node.name}({', '.join(bases)}):"]
        for each in statements(node.body):
            if isinstance(each, Nodes.SingleAssignmentNode):
                default = default_text(each.rhs)
                lines.append(f"    {each.lhs.name}: {self.use(each.lhs.annotation.string.value)} = {default}")
            elif isinstance(each, Nodes.ExprStatNode) and getattr(each.expr, "annotation", None) is not None:
                lines.append(f"    {each.expr.name}: {self.use(each.expr.annotation.string.value)}")
            elif is_function(each):
                lines += [f"    {line}" for line in self.function(each, node.name)]
        return lines

    # --- functions --------------------------------------------------------------------------------------------------

    def function(self, node: Any, owner: str | None) -> list[str]:
        name = function_name(node)
        where = f"{owner}.{name}" if owner else name
        decorators = [each.decorator.name for each in getattr(node, "decorators", None) or ()
                      if getattr(each.decorator, "name", None) in ("property", "staticmethod", "classmethod")]
        arguments = list(node.args if isinstance(node, Nodes.DefNode) else node.declarator.args)
        comment = self.function_comment(node)
        first = []
        if owner and "staticmethod" not in decorators:
            first = ["cls" if name == "__cinit__" or "classmethod" in decorators else "self"]
            arguments = arguments[1:]
        texts = self.parameters(node, arguments, comment[0] if comment else None, where)
        if name == "__init__" and not texts:
            texts = ["*args: object", "**kwargs: object"]     # as the type's slot shows it
        if owner and name.startswith("__") and name not in ("__init__", "__cinit__") and texts and texts[0][0] != "*":
            texts.append("/")
        result = comment[1] if comment else self.result(node, name, where)
        shown = "__new__" if name == "__cinit__" else name
        head = [f"@{each}" for each in decorators]
        return [*head, f"def {shown}({', '.join(first + texts)}) -> {self.use(result)}: ..."]

    def function_comment(self, node: Any) -> tuple[list[str], str] | None:
        """Return the types of parameters and of the result from the comment of a function, if it has one."""
        number = node.pos[1] - 1
        lines = self.sources.lines[number - 1:number + 4]
        for line in lines if lines[0].lstrip().startswith("# type: ") else lines[1:]:
            if found := FUNCTION_COMMENT.search(line):
                tree = ast.parse(f"({found['parameters']},)" if found["parameters"] else "()", mode="eval").body
                assert isinstance(tree, ast.Tuple)
                return [ast.unparse(each) for each in tree.elts], found["result"]
            if line.endswith(":"):
                break
        return None

    def parameters(self, node: Any, arguments: list[Any], hints: list[str] | None, where: str) -> list[str]:
        texts: list[str] = []
        star = getattr(node, "star_arg", None)
        for i, argument in enumerate(arguments):
            name = argument.declarator.name or argument.base_type.name
            if argument.kw_only and not any(text.startswith("*") for text in texts):
                texts.append(self.star_text(star))
            hint = hints[i] if hints else self.parameter_type(argument, f"{where}({name})")
            default = f" = {default_text(argument.default)}" if argument.default is not None else ""
            texts.append(f"{name}: {self.use(hint)}{default}")
        if star is not None and self.star_text(star) not in texts:
            texts.append(self.star_text(star))
        if (rest := getattr(node, "starstar_arg", None)) is not None:
            hint = rest.annotation.string.value if rest.annotation is not None else "object"
            texts.append(f"**{rest.name}: {self.use(hint)}")
        return texts

    def star_text(self, star: Any) -> str:
        if star is None:
            return "*"
        return f"*{star.name}: {self.use(star.annotation.string.value if star.annotation is not None else 'object')}"

    def parameter_type(self, argument: Any, where: str) -> str:
        if argument.annotation is not None:
            return str(argument.annotation.string.value)
        found = self.c_type(argument.base_type, where)
        if default_text(argument.default) == "None" and argument.default is not None:
            return f"{found} | None"
        return found

    def result(self, node: Any, name: str, where: str) -> str:
        if name in ("__cinit__", "__init__", "__enter__", "__exit__"):
            return "Self" if name in ("__cinit__", "__enter__") else "None"
        if isinstance(node, Nodes.CFuncDefNode):
            return self.c_type(node.base_type, f"{where}()")
        if node.return_type_annotation is not None:
            found = str(node.return_type_annotation.string.value)
            if found in GENERIC - {"object"}:
                raise StubError(f"{self.sources.name}.{where}: the result {found!r} does not say of what")
            return found
        if name in RESULTS:
            return RESULTS[name]
        raise StubError(f"{self.sources.name}.{where}: a result without a type")

    def c_type(self, base_type: Any, where: str) -> str:
        """Return the type in Python of a type in C."""
        if isinstance(base_type, Nodes.MemoryViewSliceTypeNode):
            item = base_type.base_type_node
            return "Buffer" if getattr(item, "base_type", item).name == "uint8_t" else "Array"
        name = getattr(base_type, "name", None)
        if name is None or name in GENERIC:
            raise StubError(f"{self.sources.name}.{where}: {name or 'no type'!r} does not say enough")
        if name in NUMBERS:
            return NUMBERS[name]
        if name in ("bytes", "str", "bytearray", "memoryview") or name in self.homes:
            return str(name)
        return "int"


def is_function(node: Any) -> bool:
    """Return whether a node is a function that Python can call."""
    return isinstance(node, Nodes.DefNode) or (isinstance(node, Nodes.CFuncDefNode) and node.overridable)


def function_name(node: Any) -> str:
    return str(node.name if isinstance(node, Nodes.DefNode) else node.declarator.base.name)


def comment_type(lines: list[str], number: int) -> str | None:
    """Return the type in the comment on line `number`, counted from 1, or in the one that is the line before."""
    for line in (lines[number - 1], lines[number - 2].strip()):
        if (found := TYPE_COMMENT.search(line)) and (line is lines[number - 1] or found.start() == 0):
            return found["type"]
    return None


def default_text(node: Any) -> str:
    """Return a default value as a stub shows it: short literals, else an ellipsis."""
    kind = type(node).__name__
    if kind == "NoneNode":
        return "None"
    if kind == "BoolNode":
        return str(bool(node.value))
    if kind in ("IntNode", "FloatNode"):
        return str(node.value)
    if kind == "UnaryMinusNode" and type(node.operand).__name__ == "IntNode":
        return f"-{node.operand.value}"
    if kind == "UnicodeNode":
        return repr(str(node.value))
    return "..."


def literal_type(node: Any) -> str | None:
    """Return the type of a constant's value; None when it is not plain."""
    kind = type(node).__name__
    plain = {"IntNode": "int", "FloatNode": "float", "UnicodeNode": "str", "BytesNode": "bytes", "BoolNode": "bool"}
    if kind in plain:
        return plain[kind]
    if kind in ("TupleNode", "SetNode"):
        members = {literal_type(each) for each in node.args}
        if len(members) == 1 and None not in members:
            [member] = members
            return f"tuple[{member}, ...]" if kind == "TupleNode" else f"set[{member}]"
    if kind == "SimpleCallNode" and getattr(node.function, "name", "") == "frozenset" and len(node.args) == 1:
        inner = literal_type(node.args[0])
        return f"frozen{inner}" if inner is not None and inner.startswith("set[") else None
    return None


def stub(path: Path, name: str, homes: dict[str, str]) -> str:
    """Return the stub of the module `name` with the source `path`. `homes`: module of each class and type, by name."""
    header = path.with_suffix(".pxd")
    header_lines = header.read_text("utf-8").split("\n") if header.exists() else []
    sources = Sources(name, parse(path), path.read_text("utf-8").split("\n"), parse(header), header_lines)
    return Stub(sources, homes).text()
