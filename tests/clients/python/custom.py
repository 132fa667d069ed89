"""Custom resources with the package kubernetes: CRDs, and objects as dictionaries."""

from kubernetes import client, watch
from kubernetes.client.rest import ApiException

from report import NAMESPACE, check, expect, until

GROUP = "python.interop.example"
BOATS = {"group": GROUP, "version": "v1", "namespace": NAMESPACE, "plural": "boats"}

extensions = client.ApiextensionsV1Api()
customs = client.CustomObjectsApi()

SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "crew": {"type": "integer", "minimum": 0, "default": 1},
                "port": {"type": "string"},
            },
        },
        "status": {"type": "object", "properties": {"place": {"type": "string"}}},
    },
}


def boat(name, **spec):
    """A custom resource."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Boat",
        "metadata": {"name": name, "labels": {"run": name}},
        "spec": spec,
    }


@check
def a_crd_is_established():
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": SCHEMA},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": "Crew", "type": "integer", "jsonPath": ".spec.crew"}],
    }
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"boats.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "boats", "singular": "boat", "kind": "Boat"},
            "versions": [version],
        },
    }
    extensions.create_custom_resource_definition(crd)

    def established():
        read = extensions.read_custom_resource_definition(f"boats.{GROUP}")
        conditions = read.status.conditions or []
        return any(it.type == "Established" and it.status == "True" for it in conditions)

    until(established)


@check
def custom_objects_are_created_read_changed_and_deleted():
    created = customs.create_namespaced_custom_object(body=boat("dinghy", port="home"), **BOATS)
    expect("crew", created["spec"], {"crew": 1, "port": "home"})
    version = created["metadata"]["resourceVersion"]
    patch = {"spec": {"crew": 2}}
    customs.patch_namespaced_custom_object(name="dinghy", body=patch, **BOATS)
    status = {"status": {"place": "at sea"}, "spec": {"crew": 9}}
    written = customs.patch_namespaced_custom_object_status(name="dinghy", body=status, **BOATS)
    expect("crew", written["spec"]["crew"], 2)
    expect("place", written["status"]["place"], "at sea")
    written["spec"]["crew"] = 3
    customs.replace_namespaced_custom_object(name="dinghy", body=written, **BOATS)
    customs.delete_namespaced_custom_object(name="dinghy", **BOATS)
    seen = []
    watcher = watch.Watch()
    for event in watcher.stream(
        customs.list_namespaced_custom_object, resource_version=version, **BOATS
    ):
        seen.append(event["type"])
        if event["type"] == "DELETED":
            watcher.stop()
    expect("events", seen, ["MODIFIED", "MODIFIED", "MODIFIED", "DELETED"])


@check
def a_custom_object_that_violates_its_schema_is_refused():
    try:
        customs.create_namespaced_custom_object(body=boat("wrong", crew=-1), **BOATS)
    except ApiException as error:
        expect("status", error.status, 422)
        expect("field", "spec.crew" in error.body, True)
    else:
        raise AssertionError("it was accepted")
