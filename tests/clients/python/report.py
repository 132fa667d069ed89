"""Checks: functions whose names are sentences, and which raise if the sentence is false."""

import threading
import time
import traceback

#: The namespace of all checks.
NAMESPACE = "python"

_checks = []


def check(function):
    """Registers a function as a check."""
    _checks.append(function)
    return function


def run_all():
    """Runs all checks and returns the number of failures."""
    failed = 0
    for function in _checks:
        library = function.__module__
        name = f"python {library}: {function.__name__.replace('_', ' ')}"
        try:
            _with_timeout(function)
        except Exception as error:  # whatever a library raises is a failed check
            failed += 1
            where = traceback.extract_tb(error.__traceback__)
            lines = [it.lineno for it in where if it.filename.endswith(f"{library}.py")]
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            print(f"FAIL {name}: line {lines[-1] if lines else '?'}: {reason[:1000]}", flush=True)
        else:
            print(f"ok {name}", flush=True)
    return failed


def _with_timeout(function):
    """Calls a function with a timeout."""
    result = []

    def body():
        try:
            function()
        except Exception as error:
            result.append(error)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    thread.join(30)
    if thread.is_alive():
        raise TimeoutError("not done after 30 seconds")
    if result:
        raise result[0]


def expect(what, got, wanted):
    """Raises unless the two are equal."""
    if got != wanted:
        raise AssertionError(f"{what}: got {got!r}, expected {wanted!r}")


def until(condition):
    """Polls until the condition is true; the timeout is that of the check."""
    while not condition():
        time.sleep(0.01)
