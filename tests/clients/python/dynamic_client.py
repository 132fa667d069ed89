"""The dynamic client of the package kubernetes, which finds resources by discovery."""

from kubernetes import client, dynamic
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError

from custom import GROUP, boat
from report import NAMESPACE, check, expect


def _client():
    return dynamic.DynamicClient(client.ApiClient())


@check
def built_in_resources_are_found_and_written():
    maps = _client().resources.get(api_version="v1", kind="ConfigMap")
    body = {"metadata": {"name": "dynamic"}, "data": {"key": "value"}}
    created = maps.create(body=body, namespace=NAMESPACE)
    stale = created.to_dict()
    patch = {"data": {"more": "1"}}
    maps.patch(
        name="dynamic", namespace=NAMESPACE, body=patch, content_type="application/merge-patch+json"
    )
    try:
        maps.replace(body=stale, namespace=NAMESPACE)
        raise AssertionError("a stale object was written")
    except ConflictError:
        pass
    maps.delete(name="dynamic", namespace=NAMESPACE)
    try:
        maps.get(name="dynamic", namespace=NAMESPACE)
        raise AssertionError("the object still exists")
    except NotFoundError:
        pass


@check
def custom_resources_are_found_written_and_watched():
    boats = _client().resources.get(api_version=f"{GROUP}/v1", kind="Boat")
    version = boats.get(namespace=NAMESPACE).metadata.resourceVersion
    boats.create(body=boat("barge"), namespace=NAMESPACE)
    boats.delete(name="barge", namespace=NAMESPACE)
    seen = []
    for event in boats.watch(namespace=NAMESPACE, resource_version=version, timeout=10):
        seen.append((event["type"], event["object"].metadata.name))
        if event["type"] == "DELETED":
            break
    expect("events", seen, [("ADDED", "barge"), ("DELETED", "barge")])


@check
def every_resource_is_discovered():
    found = list(_client().resources.search(kind="Deployment", group="apps"))
    expect("versions", [it.api_version for it in found if not it.kind.endswith("List")], ["v1"])
