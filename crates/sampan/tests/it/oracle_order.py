"""Replays recorded cases as `oracle.py` does, and compares the order of the fields in addition.

The order inside OpenAPI documents, which are long and read by programs only, is not compared.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(sys.argv.pop(1))))
import oracle

compare_values = oracle.difference


def difference(want, got, path=""):
    """The first path at which values, or else the order of fields, differ."""
    found = compare_values(want, got, path)
    return found or order_difference(want, got, path)


def order_difference(want, got, path):
    if path.startswith(("..components.", "..paths.")):
        return None
    if isinstance(want, dict):
        if list(want) != list(got):
            return f"{path} (order)", ", ".join(want), ", ".join(got)
        pairs = [(f"{path}.{key}", want[key], got[key]) for key in want]
    elif isinstance(want, list):
        pairs = [(f"{path}[{i}]", a, b) for i, (a, b) in enumerate(zip(want, got))]
    else:
        pairs = []
    return next((found for at, a, b in pairs if (found := order_difference(a, b, at))), None)


oracle.difference = difference
sys.exit(oracle.main())
