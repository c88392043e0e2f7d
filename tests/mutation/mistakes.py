"""The mistakes: each changes one place inside one function, in the syntax tree."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

_COMPARE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
}
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
_FOR_PEOPLE = re.compile(r"(\.|\b)(_?log|metrics)\.")
"""What is only written down changes no decision."""
Change = Callable[[ast.AST], ast.AST | None]


@dataclass(frozen=True, slots=True)
class Mistake:
    function: str
    """Its qualified name: the outermost function around the place."""
    line: int
    what: str
    code: CodeType

    @property
    def name(self) -> str:
        return f"{self.function}:{self.what}"


def mistakes(source: str, filename: str) -> Iterator[Mistake]:
    tree = ast.parse(source)
    functions = dict(_functions(tree))
    for qualname, function in functions.items():
        taken: dict[str, int] = {}
        places = [node for statement in function.body for node in ast.walk(statement)]
        for at, node in enumerate(places):
            for what, change in _changes(node):
                label = f"{ast.unparse(node).splitlines()[0][:60]} -> {what}"
                taken[label] = taken.get(label, 0) + 1
                if taken[label] > 1:
                    label = f"{label} ({taken[label]})"
                code = _compile(tree, qualname, at, change, filename)
                if code is not None:
                    yield Mistake(qualname, getattr(node, "lineno", function.lineno), label, code)


def _functions(tree: ast.AST, path: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{path}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{path}{node.name}.")


def _changes(node: ast.AST) -> Iterator[tuple[str, Change]]:
    match node:
        case ast.Compare(ops=ops):
            for n, op in enumerate(ops):
                if (other := _COMPARE.get(type(op))) is not None:
                    yield other.__name__, _at_op(n, other)
        case ast.BoolOp(op=op):
            other_op = ast.Or if isinstance(op, ast.And) else ast.And
            yield other_op.__name__, _field("op", other_op())
            if len(node.values) > 1:
                for n in range(len(node.values)):
                    yield f"without {ast.unparse(node.values[n])[:40]}", _without(n)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "no not", lambda _: operand
        case (
            ast.If(test=ast.Name() | ast.Attribute() | ast.Call())
            | ast.IfExp(test=ast.Name() | ast.Attribute() | ast.Call())
        ):
            yield "condition negated", _field("test", ast.UnaryOp(ast.Not(), node.test))
        case ast.Return(value=value) if value is not None and not _is(value, None):
            yield "returns None", _field("value", ast.Constant(None))
        case ast.Constant(value=bool(value)):
            yield str(not value), _field("value", not value)
        case ast.Constant(value=int(value)):
            yield str(value + 1), _field("value", value + 1)
        case ast.BinOp(op=op) if type(op) in _ARITHMETIC:
            yield _ARITHMETIC[type(op)].__name__, _field("op", _ARITHMETIC[type(op)]())
        case ast.Call(func=ast.Name(id=name)) if name in _NAMES:
            yield _NAMES[name], _field("func", ast.Name(_NAMES[name], ast.Load()))
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign():
            if not _FOR_PEOPLE.search(ast.unparse(node)):
                yield "left out", lambda _: ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "left out", lambda _: ast.Pass()
        case ast.Continue():
            yield "break", lambda _: ast.Break()


def _is(node: ast.AST, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _field(name: str, value: Any) -> Change:
    def change(node: ast.AST) -> ast.AST:
        setattr(node, name, value)
        return node

    return change


def _at_op(n: int, other: type[ast.cmpop]) -> Change:
    def change(node: ast.AST) -> ast.AST:
        assert isinstance(node, ast.Compare)
        node.ops[n] = other()
        return node

    return change


def _without(n: int) -> Change:
    def change(node: ast.AST) -> ast.AST:
        assert isinstance(node, ast.BoolOp)
        rest = [value for at, value in enumerate(node.values) if at != n]
        return rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)

    return change


class _Swap(ast.NodeTransformer):
    def __init__(self, place: ast.AST, new: ast.AST) -> None:
        self._place, self._new = place, new

    def visit(self, node: ast.AST) -> Any:
        return self._new if node is self._place else self.generic_visit(node)


def _compile(tree: ast.Module, qualname: str, at: int, change: Change, filename: str) -> CodeType | None:
    """The function's code with the change in it; None if that does not compile."""
    twin = copy.deepcopy(tree)
    function = dict(_functions(twin))[qualname]
    place = [node for statement in function.body for node in ast.walk(statement)][at]
    new = change(place)
    if new is not place and new is not None:
        ast.copy_location(new, place)
        _Swap(place, new).visit(function)
    ast.fix_missing_locations(twin)
    try:
        whole = compile(twin, filename, "exec")
    except (SyntaxError, ValueError, TypeError):
        return None
    return _find(whole, qualname)


def _find(code: CodeType, qualname: str) -> CodeType | None:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_qualname == qualname:
                return constant
            if qualname.startswith(f"{constant.co_qualname}.") and (found := _find(constant, qualname)) is not None:
                return found
    return None
