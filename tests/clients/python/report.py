"""Checks: functions whose names are sentences, which raise if the sentence is not true."""

import threading
import time
import traceback

#: The namespace in which all checks are made.
NAMESPACE = "python"

_checks = []


def check(function):
    """Registers a function as a check; it is made when all are."""
    _checks.append(function)
    return function


def run_all():
    """Makes every check and returns how many failed."""
    failed = 0
    for function in _checks:
        library = function.__module__
        name = f"python {library}: {function.__name__.replace('_', ' ')}"
        try:
            _with_patience(function)
        except Exception as error:  # whatever a library raises is a failed check
            failed += 1
            where = traceback.extract_tb(error.__traceback__)
            lines = [it.lineno for it in where if it.filename.endswith(f"{library}.py")]
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            print(f"FAIL {name}: line {lines[-1] if lines else '?'}: {reason[:1000]}", flush=True)
        else:
            print(f"ok {name}", flush=True)
    return failed


def _with_patience(function):
    """Calls a function, but does not wait for it for ever."""
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
    """Asks again and again until the condition holds; the patience of the check is the limit."""
    while not condition():
        time.sleep(0.01)
