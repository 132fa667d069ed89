"""Tests the API server of $KUBECONFIG with Python's client libraries in their default configuration.

Prints `ok NAME` or `FAIL NAME: reason` for each check, and fails if a check failed.
"""

import sys

from kubernetes import config

import report

config.load_kube_config()

# Each module registers its checks when it is imported; this is the order of the run.
import typed  # noqa: E402
import watches  # noqa: E402, F401
import custom  # noqa: E402, F401
import dynamic_client  # noqa: E402, F401
import asynchronous  # noqa: E402, F401
import light  # noqa: E402, F401
import kr8s_client  # noqa: E402, F401
import kopf_operator  # noqa: E402, F401

typed.create_namespace()
sys.exit(1 if report.run_all() else 0)
