//! [`Deployment`]: the objects with which the operator runs in a cluster.

use machinery::{Value, json};

use crate::access::AccessSet;
use crate::project::Project;

const LEASES: (&str, &str) = ("coordination.k8s.io", "leases");
const SECRETS: (&str, &str) = ("", "secrets");
const CONFIGURATIONS: &str = "admissionregistration.k8s.io";
const CRDS: (&str, &str) = ("apiextensions.k8s.io", "customresourcedefinitions");

/// The port of health checks and metrics.
const ENDPOINT_PORT: u16 = 8080;
/// The port of the webhooks.
const WEBHOOK_PORT: u16 = 9443;

/// The names that the objects have, and what they are derived from.
pub(crate) struct Deployment<'a> {
    /// The name of the operator.
    pub(crate) name: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) image: &'a str,
    /// The CRDs and the webhook configurations, as the project prints them.
    pub(crate) manifests: &'a [Value],
}

impl Deployment<'_> {
    /// All objects, in the order in which they are applied.
    pub(crate) fn objects(&self, project: &Project, access: AccessSet) -> Vec<Value> {
        let of_kind = |wanted: fn(&str) -> bool| {
            let found = self.manifests.iter().filter(move |it| wanted(kind_of(it)));
            found.cloned()
        };
        let mut objects: Vec<Value> = of_kind(|kind| kind == CRD).collect();
        objects.push(json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace},
        }));
        objects.push(self.object("v1", "ServiceAccount", json!({})));
        objects.extend(self.roles(project, access));
        if self.has_webhooks() {
            objects.push(self.service());
        }
        objects.push(self.deployment());
        // After the Deployment, since a webhook without a server refuses requests.
        objects.extend(of_kind(|kind| kind != CRD));
        objects
    }

    fn has_webhooks(&self) -> bool {
        self.manifests.iter().any(|it| kind_of(it) != CRD) || self.has_conversion()
    }

    fn has_conversion(&self) -> bool {
        self.manifests.iter().any(|it| it.pointer("/spec/conversion/webhook").is_some())
    }

    /// A namespaced object with the name of the operator.
    fn object(&self, api_version: &str, kind: &str, content: Value) -> Value {
        let mut object = json!({
            "apiVersion": api_version, "kind": kind,
            "metadata": {
                "name": self.name, "namespace": self.namespace, "labels": self.labels(),
            },
        });
        merge(&mut object, content);
        object
    }

    fn labels(&self) -> Value {
        json!({"app.kubernetes.io/name": self.name})
    }

    /// The roles: what the tests have recorded, the lease and the Secret in the operator's namespace,
    /// and the configurations of webhooks.
    fn roles(&self, project: &Project, mut access: AccessSet) -> Vec<Value> {
        for (group, resource) in [LEASES, SECRETS] {
            // Those of a test are in another namespace.
            access.remove(group, resource);
        }
        access.complete_caches();
        let own: Vec<_> =
            project.kinds.iter().map(|it| (it.group.as_str(), it.plural.as_str())).collect();
        if access.creates_other_than(&own) {
            // Who sets an owner reference that blocks a deletion may need this.
            for (group, plural) in &own {
                access.add(group, &format!("{plural}/finalizers"), &["update"]);
            }
        }
        access.add("", "events", &["create", "patch"]);
        let mut own_namespace = AccessSet::default();
        own_namespace.add(LEASES.0, LEASES.1, &["get", "create", "update"]);
        if self.has_webhooks() {
            own_namespace.add(SECRETS.0, SECRETS.1, &["get", "create", "update"]);
        }
        for kind in self.manifests.iter().map(kind_of).filter(|kind| *kind != CRD) {
            let plural = format!("{}s", kind.to_lowercase());
            access.add(CONFIGURATIONS, &plural, &["list", "watch", "update"]);
        }
        if self.has_conversion() {
            access.add(CRDS.0, CRDS.1, &["list", "watch", "update"]);
        }
        let rbac = "rbac.authorization.k8s.io/v1";
        let binding = |role: &str| {
            json!({
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": self.name},
                "subjects": [{
                    "kind": "ServiceAccount", "name": self.name, "namespace": self.namespace,
                }],
            })
        };
        let cluster_object = |kind: &str, content: Value| {
            let mut object = self.object(rbac, kind, content);
            object["metadata"].as_object_mut().map(|metadata| metadata.remove("namespace"));
            object
        };
        vec![
            cluster_object("ClusterRole", json!({"rules": access.rules()})),
            cluster_object("ClusterRoleBinding", binding("ClusterRole")),
            self.object(rbac, "Role", json!({"rules": own_namespace.rules()})),
            self.object(rbac, "RoleBinding", binding("Role")),
        ]
    }

    fn service(&self) -> Value {
        let mut service = self.object(
            "v1",
            "Service",
            json!({
                "spec": {
                    "selector": self.labels(),
                    "ports": [{"name": "webhooks", "port": 443, "targetPort": WEBHOOK_PORT}],
                },
            }),
        );
        service["metadata"]["name"] = json!(format!("{}-webhooks", self.name));
        service
    }

    fn deployment(&self) -> Value {
        let probe = |path: &str| json!({"httpGet": {"path": path, "port": ENDPOINT_PORT}});
        let mut ports = vec![json!({"name": "endpoint", "containerPort": ENDPOINT_PORT})];
        if self.has_webhooks() {
            ports.push(json!({"name": "webhooks", "containerPort": WEBHOOK_PORT}));
        }
        let container = json!({
            "name": "operator",
            "image": self.image,
            "args": ["--leader-elect", format!("--endpoint=0.0.0.0:{ENDPOINT_PORT}")],
            "env": [{
                "name": "POD_NAMESPACE",
                "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}},
            }],
            "ports": ports,
            "livenessProbe": probe("/healthz"),
            "readinessProbe": probe("/readyz"),
            "resources": {
                "requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"},
            },
            "securityContext": {
                "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"]},
            },
        });
        self.object(
            "apps/v1",
            "Deployment",
            json!({
                "spec": {
                    "replicas": 1,
                    "selector": {"matchLabels": self.labels()},
                    "template": {
                        "metadata": {"labels": self.labels()},
                        "spec": {
                            "serviceAccountName": self.name,
                            "securityContext": {
                                "runAsNonRoot": true, "runAsUser": 65532,
                                "seccompProfile": {"type": "RuntimeDefault"},
                            },
                            "terminationGracePeriodSeconds": 35,
                            "containers": [container],
                        },
                    },
                },
            }),
        )
    }
}

const CRD: &str = "CustomResourceDefinition";

/// The kind of an object.
pub(crate) fn kind_of(object: &Value) -> &str {
    object["kind"].as_str().unwrap_or_default()
}

/// The name of an object.
pub(crate) fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Adds the fields of an object to another one.
fn merge(object: &mut Value, content: Value) {
    if let (Value::Object(object), Value::Object(content)) = (object, content) {
        object.extend(content);
    }
}
