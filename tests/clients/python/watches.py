"""Watches and informers of the package kubernetes."""

import logging
import queue
import threading

from kubernetes import client, watch
from kubernetes.informer import SharedInformer
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

from report import NAMESPACE, check, expect
from typed import core, named


def create_update_delete(name):
    """Creates, updates and deletes a configmap."""
    core.create_namespaced_config_map(NAMESPACE, client.V1ConfigMap(metadata=named(name)))
    core.patch_namespaced_config_map(name, NAMESPACE, {"data": {"key": "value"}})
    core.delete_namespaced_config_map(name, NAMESPACE)


@check
def a_watch_from_the_version_of_a_list_reports_all_events():
    version = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    create_update_delete("watched")
    watcher = watch.Watch()
    seen = []
    for event in watcher.stream(
        core.list_namespaced_config_map,
        NAMESPACE,
        resource_version=version,
        field_selector="metadata.name=watched",
    ):
        seen.append(event["type"])
        expect("name", event["object"].metadata.name, "watched")
        if event["type"] == "DELETED":
            watcher.stop()
    expect("events", seen, ["ADDED", "MODIFIED", "DELETED"])


@check
def a_watch_without_a_version_begins_with_the_existing_objects():
    for event in watch.Watch().stream(core.list_namespace, timeout_seconds=5):
        expect("event", event["type"], "ADDED")
        if event["object"].metadata.name == NAMESPACE:
            return
    raise AssertionError("there was no event for the namespace")


@check
def a_watch_ends_at_its_timeout():
    events = watch.Watch().stream(
        core.list_namespaced_config_map, NAMESPACE, label_selector="no=body", timeout_seconds=1
    )
    expect("events", list(events), [])


@check
def an_informer_reports_all_events():
    seen = queue.Queue()
    informer = SharedInformer(
        core.list_namespaced_config_map, namespace=NAMESPACE, label_selector="run=informed"
    )
    for kind in ("ADDED", "MODIFIED", "DELETED"):
        informer.add_event_handler(kind, lambda _, kind=kind: seen.put(kind))
    core.create_namespaced_config_map(NAMESPACE, client.V1ConfigMap(metadata=named("informed")))
    informer.start()
    expect("the first", seen.get(), "ADDED")
    expect("cached", informer.cache.list_keys(), [f"{NAMESPACE}/informed"])
    core.patch_namespaced_config_map("informed", NAMESPACE, {"data": {"key": "value"}})
    expect("the second", seen.get(), "MODIFIED")
    core.delete_namespaced_config_map("informed", NAMESPACE)
    expect("the third", seen.get(), "DELETED")
    # The thread of the informer logs the closed connection as an error.
    logging.disable(logging.CRITICAL)
    informer.stop()
    logging.disable(logging.NOTSET)


@check
def a_candidate_is_elected():
    led = queue.Queue()
    election = leaderelection.LeaderElection(
        electionconfig.Config(
            LeaseLock("leader-lease", NAMESPACE, "only"),
            lease_duration=3,
            renew_deadline=2,
            retry_period=1,
            onstarted_leading=lambda: led.put("only"),
            onstopped_leading=None,
        )
    )
    # The candidate leads until the program ends, since it cannot release the lease.
    threading.Thread(target=election.run, daemon=True).start()
    expect("leader", led.get(), "only")
    lease = client.CoordinationV1Api().read_namespaced_lease("leader-lease", NAMESPACE)
    expect("holder", lease.spec.holder_identity, "only")
