"""What an editor is told: no public signature has Any, nor has what it names."""

import ast
import pathlib
import unittest

import weft

PACKAGE = pathlib.Path(weft.__file__).parent
PUBLIC = ("__init__.py", "cupyx/__init__.py", "nvmath/__init__.py", "torch/__init__.py")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def statements(body):
    """Those of a module, whatever they stand under."""
    for node in body:
        yield node
        if isinstance(node, ast.If):
            yield from statements(node.body)


def defined():
    """What the package's modules define, by name: classes, functions, and other names for types."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in statements(ast.parse(path.read_text()).body):
            if isinstance(node, (ast.ClassDef, *FUNCTIONS)):
                found.setdefault(node.name, []).append((path, node))
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                found.setdefault(node.targets[0].id, []).append((path, node.value))
    return found


def exported():
    """The names in __all__, and the functions of weft.mpi."""
    for place in PUBLIC:
        for node in ast.parse((PACKAGE / place).read_text()).body:
            if isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
                yield from ast.literal_eval(node.value)
    yield from ("world", "bootstrap")


def shown(node):
    """What an editor shows of a definition: (name, annotation)."""
    if isinstance(node, FUNCTIONS):
        rest = [each for each in (node.args.vararg, node.args.kwarg) if each]
        for each in node.args.posonlyargs + node.args.args + node.args.kwonlyargs + rest:
            yield node.name, each.annotation
        yield node.name, node.returns
    elif isinstance(node, ast.ClassDef):
        yield from ((node.name, base) for base in node.bases)
        for member in node.body:
            if isinstance(member, FUNCTIONS) and (member.name == "__init__" or not member.name.startswith("_")):
                yield from ((f"{node.name}.{name}", annotation) for name, annotation in shown(member))
            elif isinstance(member, ast.AnnAssign) and not member.target.id.startswith("_"):
                yield f"{node.name}.{member.target.id}", member.annotation
    else:
        yield "another name for a type", node


def names(annotation):
    """The names in an annotation, which may be in quotes."""
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            yield node.value


class Types(unittest.TestCase):
    def test_any(self):
        """From what is exported on: bases, protocols and other names are looked at too."""
        known, wanted, seen, wrong = defined(), list(exported()), set(), []
        while wanted:
            name = wanted.pop()
            if name in seen:
                continue
            seen.add(name)
            for path, node in known.get(name, ()):
                for where, annotation in shown(node):
                    used = set(names(annotation)) if annotation is not None else set()
                    if "Any" in used:
                        wrong.append(f"{path.relative_to(PACKAGE)}: {where}")
                    wanted += used
        self.assertGreater(len(seen & set(known)), 40)
        self.assertEqual(sorted(set(wrong)), [])


if __name__ == "__main__":
    unittest.main()
