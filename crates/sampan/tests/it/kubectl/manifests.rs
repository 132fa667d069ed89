//! The manifests of the scenarios.

/// A CRD with every feature that kubectl displays: columns, a category, both subresources,
/// descriptions, a default, rules.
pub(super) const VPC_CRD: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: vpcs.sampan.example.com
spec:
  group: sampan.example.com
  scope: Namespaced
  names: {kind: Vpc, plural: vpcs, shortNames: [vp], categories: [nets]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    additionalPrinterColumns:
    - {name: CIDR, type: string, jsonPath: .spec.cidr}
    - {name: Replicas, type: integer, jsonPath: .spec.replicas}
    - {name: Phase, type: string, jsonPath: .status.phase, priority: 1}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    schema:
      openAPIV3Schema:
        type: object
        description: A virtual private cloud.
        required: [spec]
        properties:
          spec:
            type: object
            description: What is wanted.
            required: [cidr]
            properties:
              cidr: {type: string, description: The range of addresses., pattern: '^[0-9./]+$'}
              replicas: {type: integer, minimum: 0, maximum: 10, default: 1}
              zones:
                type: array
                items: {type: object, properties: {name: {type: string}}}
          status:
            type: object
            properties:
              phase: {type: string}
              replicas: {type: integer}
";

pub(super) const VPC: &str = "
apiVersion: sampan.example.com/v1
kind: Vpc
metadata: {name: one, labels: {tier: front}}
spec: {cidr: 10.0.0.0/8}
";

/// A custom resource with a field that is not in the schema.
pub(super) const VPC_WITH_A_COLOR: &str = "
apiVersion: sampan.example.com/v1
kind: Vpc
metadata: {name: colored}
spec: {cidr: 10.0.0.0/8, color: red}
";

pub(super) const CONFIG_MAP: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: web}}
data: {color: red}
";

pub(super) const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  nodeName: worker
  containers:
  - name: web
    image: nginx:1.27
    ports: [{containerPort: 80}]
    resources: {limits: {cpu: 500m, memory: 64Mi}}
";

pub(super) const NODE: &str = "
apiVersion: v1
kind: Node
metadata: {name: worker, labels: {node-role.kubernetes.io/worker: ''}}
spec: {podCIDR: 10.244.0.0/24}
";

pub(super) const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, labels: {app: web}}
spec: {clusterIP: 10.0.0.80, selector: {app: web}, ports: [{port: 80}]}
";

pub(super) const NAMESPACE: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: staging}
";
