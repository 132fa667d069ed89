"""lightkube: another typed client, which uses httpx."""

from lightkube import ApiError, Client
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap, Namespace
from lightkube.types import PatchType

from custom import GROUP
from report import NAMESPACE, check, expect
from typed import apps, deployment

Boat = create_namespaced_resource(GROUP, "v1", "Boat", "boats")


def _client():
    return Client(namespace=NAMESPACE)


@check
def configmaps_are_created_read_changed_and_deleted():
    client = _client()
    body = ConfigMap(metadata=ObjectMeta(name="light"), data={"key": "value"})
    created = client.create(body)
    created.data["more"] = "1"
    expect("data", client.replace(created).data, {"key": "value", "more": "1"})
    patched = client.patch(ConfigMap, "light", {"data": {"key": None}}, patch_type=PatchType.MERGE)
    expect("data", patched.data, {"more": "1"})
    client.delete(ConfigMap, "light")
    try:
        client.get(ConfigMap, "light")
        raise AssertionError("the object still exists")
    except ApiError as error:
        expect("code", error.status.code, 404)


@check
def a_watch_is_resumed_by_the_client():
    client = _client()
    client.create(ConfigMap(metadata=ObjectMeta(name="seen", labels={"run": "seen"})))
    # The server ends the watch each second; the client resumes it.
    events = client.watch(ConfigMap, labels={"run": "seen"}, server_timeout=1)
    seen = []
    for kind, _ in events:
        seen.append(kind)
        if kind == "ADDED":
            client.patch(ConfigMap, "seen", {"data": {"key": "value"}})
        elif kind == "MODIFIED":
            client.delete(ConfigMap, "seen")
        else:
            break
    expect("events", seen, ["ADDED", "MODIFIED", "DELETED"])


@check
def lists_are_read_in_chunks():
    client = _client()
    names = [it.metadata.name for it in client.list(Namespace, chunk_size=2)]
    expect("default", "default" in names, True)
    expect("once each", len(names), len(set(names)))


@check
def scale_and_custom_resources():
    client = _client()
    apps.create_namespaced_deployment(NAMESPACE, deployment("light"))
    scale = client.get(Deployment.Scale, "light")
    expect("replicas", scale.spec.replicas or 0, 0)
    client.delete(Deployment, "light")
    created = client.create(Boat(metadata=ObjectMeta(name="skiff"), spec={"port": "west"}))
    expect("spec", created.spec, {"crew": 1, "port": "west"})
    client.delete(Boat, "skiff")
