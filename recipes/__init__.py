"""
Recipes built only on what ``zkcoord`` exports: one readable file a recipe.

The package is importable and still empty: leader election, barriers, counters and others come here.
"""

__all__: list[str] = []
