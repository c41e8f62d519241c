"""``python -m recipes``: list the recipes with one line each."""

import ast
from pathlib import Path

#: Files of the package that are no recipe.
_OTHERS = frozenset({"errors"})


def listing() -> list[tuple[str, str]]:
    """Return module name and first line of each recipe, in name order; read without importing them."""
    found = []
    for path in sorted(Path(__file__).parent.glob("[!_]*.py")):
        if path.stem not in _OTHERS:
            text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
            found.append((path.stem, text.partition("\n")[0]))
    return found


def main() -> None:
    """Print the listing."""
    recipes = listing()
    width = max(len(name) for name, _ in recipes)
    for name, line in recipes:
        print(f"recipes.{name:<{width}}  {line}")


if __name__ == "__main__":
    main()
