"""kr8s: an object-oriented client, which finds kinds by discovery."""

import kr8s
from kr8s.objects import ConfigMap, new_class

from custom import GROUP, boat
from report import NAMESPACE, check, expect

Boat = new_class("Boat", version=f"{GROUP}/v1", namespaced=True, plural="boats")


@check
def configmaps_are_created_read_changed_and_deleted():
    api = kr8s.api(namespace=NAMESPACE)
    body = {"metadata": {"name": "object", "namespace": NAMESPACE}, "data": {"key": "value"}}
    it = ConfigMap(body, api=api)
    it.create()
    expect("exists", it.exists(), True)
    it.patch({"data": {"more": "1"}})
    it.label(run="object")
    found = list(kr8s.get("cm", namespace=NAMESPACE, label_selector="run=object", api=api))
    expect("data", [it.raw["data"] for it in found], [{"key": "value", "more": "1"}])
    it.delete()
    it.wait("delete", timeout=10)
    expect("exists", it.exists(), False)


@check
def custom_resources_are_created_read_changed_and_deleted():
    api = kr8s.api(namespace=NAMESPACE)
    body = boat("raft")
    body["metadata"]["namespace"] = NAMESPACE
    it = Boat(body, api=api)
    it.create()
    found = list(kr8s.get(f"boats.{GROUP}", namespace=NAMESPACE, api=api))
    expect("names", [it.name for it in found], ["raft"])
    it.delete()
