"""The typed clients of the package kubernetes, which are generated from OpenAPI."""

import base64
import datetime

from kubernetes import client
from kubernetes.client.rest import ApiException

from report import NAMESPACE, check, expect

core = client.CoreV1Api()
apps = client.AppsV1Api()


def named(name, **more):
    """The metadata of an object."""
    return client.V1ObjectMeta(name=name, labels={"run": name}, **more)


def refused(status, reason, call, *arguments, **more):
    """Makes a call that must be refused."""
    try:
        call(*arguments, **more)
    except ApiException as error:
        expect("status", error.status, status)
        expect("reason", f'"reason":"{reason}"' in error.body.replace(" ", ""), True)
        return
    raise AssertionError(f"it was not refused, though expected {reason}")


def create_namespace():
    """Creates the namespace of all checks."""
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NAMESPACE)))
    # Pods need the service account, and its controller may be slow or absent.
    account = client.V1ServiceAccount(metadata=client.V1ObjectMeta(name="default"))
    try:
        core.create_namespaced_service_account(NAMESPACE, account)
    except ApiException as error:
        expect("status", error.status, 409)


def pod_template(name):
    """A template of pods that never run."""
    container = client.V1Container(
        name="main",
        image="registry.invalid/image:1",
        ports=[client.V1ContainerPort(container_port=8080)],
        resources=client.V1ResourceRequirements(requests={"cpu": "100m"}),
    )
    spec = client.V1PodSpec(containers=[container], node_selector={"nowhere": "found"})
    return client.V1PodTemplateSpec(metadata=client.V1ObjectMeta(labels={"run": name}), spec=spec)


def deployment(name):
    """A deployment without replicas."""
    return client.V1Deployment(
        metadata=named(name),
        spec=client.V1DeploymentSpec(
            replicas=0,
            selector=client.V1LabelSelector(match_labels={"run": name}),
            template=pod_template(name),
        ),
    )


@check
def the_server_reports_its_version_and_groups():
    expect("major", client.VersionApi().get_code().major, "1")
    groups = [it.name for it in client.ApisApi().get_api_versions().groups]
    expect("apps", "apps" in groups, True)
    resources = client.AppsV1Api().get_api_resources().resources
    expect("deployments", "deployments" in [it.name for it in resources], True)


@check
def configmaps_are_created_read_changed_and_deleted():
    body = client.V1ConfigMap(metadata=named("a-configmap"), data={"key": "välue"})
    created = core.create_namespaced_config_map(NAMESPACE, body)
    expect("data", created.data, {"key": "välue"})
    refused(409, "AlreadyExists", core.create_namespaced_config_map, NAMESPACE, body)
    created.data["more"] = "1"
    replaced = core.replace_namespaced_config_map("a-configmap", NAMESPACE, created)
    refused(409, "Conflict", core.replace_namespaced_config_map, "a-configmap", NAMESPACE, created)
    patched = core.patch_namespaced_config_map("a-configmap", NAMESPACE, {"data": {"key": None}})
    expect("data", patched.data, {"more": "1"})
    operations = [{"op": "add", "path": "/data/third", "value": "3"}]
    patched = core.patch_namespaced_config_map("a-configmap", NAMESPACE, operations)
    expect("data", patched.data, {"more": "1", "third": "3"})
    expect("uid", patched.metadata.uid, replaced.metadata.uid)
    core.delete_namespaced_config_map("a-configmap", NAMESPACE)
    refused(404, "NotFound", core.read_namespaced_config_map, "a-configmap", NAMESPACE)


@check
def secrets_accept_strings_and_return_bytes():
    body = client.V1Secret(metadata=named("a-secret"), string_data={"word": "open"})
    created = core.create_namespaced_secret(NAMESPACE, body)
    expect("data", base64.b64decode(created.data["word"]), b"open")
    expect("type", created.type, "Opaque")


@check
def pods_are_defaulted_and_deleted():
    body = client.V1Pod(metadata=named("a-pod"), spec=pod_template("a-pod").spec)
    created = core.create_namespaced_pod(NAMESPACE, body)
    expect("phase", created.status.phase, "Pending")
    expect("policy", created.spec.restart_policy, "Always")
    expect("time", isinstance(created.metadata.creation_timestamp, datetime.datetime), True)
    listed = core.list_pod_for_all_namespaces(field_selector="metadata.name=a-pod").items
    expect("pods", [it.metadata.name for it in listed], ["a-pod"])
    core.delete_namespaced_pod("a-pod", NAMESPACE, grace_period_seconds=0)
    expect("pods", core.list_namespaced_pod(NAMESPACE).items, [])


@check
def services_get_a_cluster_ip():
    body = client.V1Service(
        metadata=named("a-service"),
        spec=client.V1ServiceSpec(ports=[client.V1ServicePort(port=80, target_port="http")]),
    )
    created = core.create_namespaced_service(NAMESPACE, body)
    expect("type", created.spec.type, "ClusterIP")
    expect("address", created.spec.cluster_ip in (None, "", "None"), False)
    core.delete_namespaced_service("a-service", NAMESPACE)


@check
def deployments_are_patched_and_scaled():
    apps.create_namespaced_deployment(NAMESPACE, deployment("a-deployment"))
    containers = [{"name": "side", "image": "registry.invalid/side:1"}]
    patch = {"spec": {"template": {"spec": {"containers": containers}}}}
    patched = apps.patch_namespaced_deployment("a-deployment", NAMESPACE, patch)
    names = sorted(it.name for it in patched.spec.template.spec.containers)
    expect("containers", names, ["main", "side"])
    patch = {"spec": {"replicas": 2}}
    apps.patch_namespaced_deployment_scale("a-deployment", NAMESPACE, patch)
    scale = apps.read_namespaced_deployment_scale("a-deployment", NAMESPACE)
    expect("replicas", scale.spec.replicas, 2)
    status = {"status": {"observedGeneration": 1}}
    apps.patch_namespaced_deployment_status("a-deployment", NAMESPACE, status)
    apps.delete_namespaced_deployment("a-deployment", NAMESPACE, propagation_policy="Background")


@check
def kinds_of_other_groups_are_served():
    label = client.V1LabelSelector(match_labels={"run": "other"})
    template = pod_template("other")
    template.spec.restart_policy = "Never"
    job = client.V1Job(metadata=named("job"), spec=client.V1JobSpec(suspend=True, template=template))
    client.BatchV1Api().create_namespaced_job(NAMESPACE, job)
    budget = client.V1PodDisruptionBudget(
        metadata=named("budget"),
        spec=client.V1PodDisruptionBudgetSpec(min_available="50%", selector=label),
    )
    client.PolicyV1Api().create_namespaced_pod_disruption_budget(NAMESPACE, budget)
    rule = client.V1PolicyRule(api_groups=[""], resources=["pods"], verbs=["get"])
    role = client.V1Role(metadata=named("role"), rules=[rule])
    client.RbacAuthorizationV1Api().create_namespaced_role(NAMESPACE, role)
    now = datetime.datetime.now(datetime.timezone.utc)
    lease = client.V1Lease(
        metadata=named("lease"), spec=client.V1LeaseSpec(holder_identity="me", renew_time=now)
    )
    stored = client.CoordinationV1Api().create_namespaced_lease(NAMESPACE, lease)
    expect("renewed", stored.spec.renew_time, now)


@check
def lists_are_read_in_pages():
    for number in range(5):
        body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name=f"page-{number}", labels={"book": "one"}))
        core.create_namespaced_config_map(NAMESPACE, body)
    names, token = [], None
    while token != "":
        more = {"_continue": token} if token else {}
        page = core.list_namespaced_config_map(NAMESPACE, label_selector="book=one", limit=2, **more)
        names += [it.metadata.name for it in page.items]
        token = page.metadata._continue or ""
    expect("names", names, [f"page-{it}" for it in range(5)])
    core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="book=one")
    left = core.list_namespaced_config_map(NAMESPACE, label_selector="book=one")
    expect("left", left.items, [])


@check
def an_invalid_object_is_refused():
    wrong = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="Not A Name"))
    refused(422, "Invalid", core.create_namespaced_config_map, NAMESPACE, wrong)
