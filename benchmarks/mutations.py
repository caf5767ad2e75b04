"""Small faults of the kinds people make, planted in a module's syntax tree one at a time."""

import ast
import builtins
import types
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from typing import Any

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div, ast.Mod: ast.Mult,
}  # fmt: skip
TAKEN_FOR_EACH_OTHER = (
    "min max", "any all", "floor ceil", "ROUND_FLOOR ROUND_CEILING", "ROUND_DOWN ROUND_UP", "bid ask",
    "buying selling", "sells buys", "sold bought", "below above", "cash turnover", "cash settled_cash",
    "least most", "wanted most", "before most", "price worth", "limit price", "held effective", "held sellable",
    "absolute relative", "quantity remaining", "target equity", "gap worth", "start rounded",
)  # fmt: skip
"""Names of what rounds the other way, of the other side, the other budget, the other figure."""

WORDS = {"buy": "sell", "sell": "buy", "settled": "total", "both": "buy_only"}
NOTHING = {
    "str": "''", "int": "0", "Decimal": "Decimal(0)", "Fraction": "Fraction(0)", "dict[str, int]": "{}", "Given": "{}",
    "Terms": "{}", "tuple[Decimal, Decimal]": "(Decimal(0), Decimal(0))",
}  # fmt: skip
"""What a function returns -> what it returns when it forgets what it found; what may be None is None."""

UNTOUCHED = {"annotation", "returns", "decorator_list", "bases", "ctx", "op", "ops"}


@dataclass(frozen=True)
class Mutant:
    """A module with one fault, compiled."""

    module: str
    line: int
    statement: range  # its lines, or those of its head; empty where every import comes by
    before: str
    after: str
    code: types.CodeType

    def is_reached_by(self, lines: Container[tuple[str, int]]) -> bool:
        """Tell whether these lines pass the statement that has the fault."""
        return not self.statement or any((self.module, line) in lines for line in self.statement)


@dataclass(frozen=True)
class Scope:
    """What surrounds a place."""

    names: frozenset[str]  # all that the module speaks of; an attribute with a dot before it
    function: ast.FunctionDef | None = None
    statement: range = range(0)

    def inside(self, node: ast.AST) -> "Scope":
        """Return the scope of what this node holds."""
        if isinstance(node, ast.FunctionDef):
            return replace(self, function=node)
        if isinstance(node, ast.stmt) and self.function:
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            return replace(self, statement=range(node.lineno, max(last, node.lineno) + 1))
        return self


def mutants_of(module: str, source: str) -> Iterator[Mutant]:
    """Yield every mutant of a module, in the order of its lines."""
    tree = ast.parse(source)
    names = frozenset(getattr(node, "id", f".{getattr(node, 'attr', '')}") for node in ast.walk(tree))
    for parent, field, at, node, scope in _places(tree, Scope(names)):
        for other in _variants(node, parent, field, scope):
            _put(parent, field, at, ast.copy_location(other, node))
            code = compile(ast.fix_missing_locations(tree), module, "exec")
            _put(parent, field, at, node)
            yield Mutant(module, getattr(node, "lineno", 0), scope.statement, _told(node), _told(other), code)


def _told(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 100 else f"{text[:99]}…"


def _put(parent: ast.AST, field: str, at: int | None, node: ast.AST) -> None:
    if at is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[at] = node


def _places(parent: ast.AST, scope: Scope) -> Iterator[tuple[ast.AST, str, int | None, Any, Scope]]:
    """Yield parent, field, position in it, node and scope of all that may be put wrong; texts are left alone."""
    for field, value in ast.iter_fields(parent):
        if field in UNTOUCHED:
            continue
        several = isinstance(value, list)
        for at, node in enumerate(value if several else [value]):
            if not isinstance(node, ast.AST) or isinstance(node, ast.JoinedStr | ast.Import | ast.ImportFrom):
                continue
            # Defaults belong to whoever defines the function, and are there before it is ever called.
            around = Scope(scope.names) if isinstance(node, ast.arguments) else scope.inside(node)
            yield parent, field, at if several else None, node, around
            yield from _places(node, around)


def _variants(node: ast.AST, parent: ast.AST, field: str, scope: Scope) -> Iterator[ast.AST]:
    """Yield what may stand in the place of a node by mistake."""
    asked = field == "test" or (isinstance(parent, ast.comprehension) and field == "ifs")
    if asked and isinstance(node, ast.expr) and not isinstance(node, ast.Compare):
        yield _not(node)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node.operand
    if isinstance(node, ast.stmt):
        yield from _other_statements(node, scope)
    yield from _other_operators(node)
    yield from _other_calls(node)
    yield from _other_words(node, scope)
    if not scope.function or field == "iter" or isinstance(node, ast.List | ast.Slice):
        yield from _shorter(node)


def _other_operators(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.Compare(left, operators, right):
            for at, operator in enumerate(operators):
                for other in COMPARISONS[type(operator)]:
                    yield ast.Compare(left, [*operators[:at], other(), *operators[at + 1 :]], right)
        case ast.BinOp(left, operator, right) if type(operator) in ARITHMETIC:
            yield ast.BinOp(left, ARITHMETIC[type(operator)](), right)
        case ast.BoolOp(operator, values):
            yield ast.BoolOp(ast.And() if isinstance(operator, ast.Or) else ast.Or(), values)
            for rest in _each_left_out(values):
                yield rest[0] if len(rest) == 1 else ast.BoolOp(operator, rest)


def _other_calls(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.Call(ast.Name("Decimal"), [ast.Constant(str() as figure)]):
            yield ast.parse(f"(2 * Decimal('{figure}'))", mode="eval").body
        case ast.Call(ast.Name("abs" | "reversed" | "int"), [only]):
            yield only
        case ast.Call(ast.Name("sorted" | "min" | "max") as function, arguments, [_, *_]):
            yield ast.Call(function, arguments, [])


def _other_words(node: ast.AST, scope: Scope) -> Iterator[ast.expr]:
    match node:
        case ast.Constant(value):
            yield from map(ast.Constant, _other_values(value))
        case ast.Name(name, ast.Load() as load):
            yield from (ast.Name(other, load) for other in _taken_for(name) if _is_known(other, scope))
        case ast.Attribute(value, name, ast.Load() as load):
            yield from (ast.Attribute(value, other, load) for other in _taken_for(name) if f".{other}" in scope.names)


def _shorter(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Slice(lower, upper, None):
            yield ast.Slice(None, upper) if lower else ast.Slice(lower, None)
        case ast.List([_, _, *_] as elements, ast.Load()):
            yield from (ast.List(rest, ast.Load()) for rest in _each_left_out(elements))
        case ast.Tuple([_, _, *_] as elements, ast.Load()):
            yield from (ast.Tuple(rest, ast.Load()) for rest in _each_left_out(elements))


def _other_statements(node: ast.stmt, scope: Scope) -> Iterator[ast.stmt]:
    match node:
        case ast.AugAssign(target, operator, value):
            if type(operator) in ARITHMETIC:
                yield ast.AugAssign(target, ARITHMETIC[type(operator)](), value)
            yield ast.Pass()
        case ast.Expr(ast.Yield() | ast.YieldFrom()):
            yield ast.parse("yield from ()").body[0]
        case ast.Expr(ast.Call()) | ast.Continue() | ast.Break() | ast.Delete() | ast.Assign([ast.Subscript()]):
            yield ast.Pass()
        case ast.Return(ast.expr() as value) if scope.function and scope.function.returns:
            returned = ast.unparse(scope.function.returns)
            if returned == "bool" and not isinstance(value, ast.Compare):
                yield ast.Return(_not(value))
            nothing = "None" if "None" in returned else NOTHING.get(returned)
            if nothing and nothing != ast.unparse(value):
                yield ast.parse(f"return {nothing}").body[0]


def _not(node: ast.expr) -> ast.expr:
    negated = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return node.operand if negated else ast.UnaryOp(ast.Not(), node)


def _each_left_out(nodes: list[ast.expr]) -> Iterator[list[ast.expr]]:
    yield from (nodes[:at] + nodes[at + 1 :] for at in range(len(nodes)))


def _other_values(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [0, 2] if value == 1 else [value + 1]
    if isinstance(value, float):
        return [2 * value]
    return [WORDS[value]] if isinstance(value, str) and value in WORDS else []


def _taken_for(name: str) -> list[str]:
    pairs = map(str.split, TAKEN_FOR_EACH_OTHER)
    return [pair[1 - pair.index(name)] for pair in pairs if name in pair]


def _is_known(name: str, scope: Scope) -> bool:
    return name in scope.names or hasattr(builtins, name)
