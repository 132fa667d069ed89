//! The custom resources: [`Vpc`], and [`Network`], which is each of its subnets.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use runtime::prelude::*;

/// The label of the Networks and the pods of a VPC; its value is [`Vpc::vpc_name`].
pub const VPC_LABEL: &str = "network.example.com/vpc";

/// The annotation of a Network with the addresses that were allocated to it. If somebody changes its
/// spec, the operator restores it.
pub const SUBNET_ANNOTATION: &str = "network.example.com/subnet";

/// The largest number of subnets of a Vpc.
pub const MAX_SUBNETS: usize = 256;

/// A virtual private cloud: a block of addresses, split into subnets.
#[resource(
    group = "network.example.com",
    version = "v1",
    kind = "Vpc",
    namespaced,
    status = "VpcStatus",
    printcolumn(name = "Block", type_ = "string", json_path = ".spec.cidrblock"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.subnetnum"),
    printcolumn(name = "Current", type_ = "integer", json_path = ".status.subnetnum"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    rule(
        "!isCIDR(self.cidrblock) || cidr(self.cidrblock).ip().family() != 4 || \
         cidr(self.cidrblock).prefixLength() <= 22 || \
         (cidr(self.cidrblock).prefixLength() <= 30 && \
         self.subnetnum <= [1, 2, 4, 8, 16, 32, 64, 128][30 - cidr(self.cidrblock).prefixLength()])",
        message = "too small for the number of subnets, each of at least 4 addresses",
        field_path = ".cidrblock"
    ),
    object_rule(
        "self.metadata.name.size() <= 59",
        message = "metadata.name: at most 59 characters, since the subnets are named after it"
    )
)]
pub struct VpcSpec {
    /// The name of the VPC, by default that of the object.
    #[serde(default)]
    #[schemars(length(max = 63), regex(pattern = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"))]
    pub vpcname: String,
    /// The addresses of the VPC, such as `10.0.0.0/16`.
    #[schemars(length(max = 18))]
    #[schema(
        rule(
            "isCIDR(self) && cidr(self).ip().family() == 4 && cidr(self) == cidr(self).masked()",
            message = "must be an IPv4 block such as 10.0.0.0/16"
        ),
        // The rule of the cidr of a Network.
        rule(
            "!isCIDR(self) || ['0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/4', \
             '255.255.255.255/32'].all(reserved, \
             !cidr(reserved).containsCIDR(self) && !cidr(self).containsCIDR(reserved))",
            message = "must not overlap unspecified, loopback, link-local, multicast or \
                       broadcast addresses"
        )
    )]
    pub cidrblock: String,
    /// The number of subnets.
    #[serde(default)]
    #[schemars(range(max = 256))]
    pub subnetnum: usize,
}

/// The observed state of a VPC.
#[schema]
#[derive(PartialEq, Default)]
#[serde(default)]
pub struct VpcStatus {
    /// The pods with the label of the VPC that are pending or running.
    pub pod_names: Vec<String>,
    /// The number of subnets that exist.
    pub subnetnum: usize,
    /// `Ready`: the subnets are as requested, and their Networks are ready.
    #[schema(list_map_keys("type"))]
    pub conditions: Vec<Condition>,
}

impl Vpc {
    /// The name of the VPC.
    pub fn vpc_name(&self) -> String {
        Some(self.spec.vpcname.clone()).filter(|name| !name.is_empty()).unwrap_or(self.name_any())
    }
}

/// A subnet. This is the part of `v2` of the kind, the stored version, that this operator writes or
/// reads.
#[resource(
    group = "samplecrd.k8s.io",
    version = "v2",
    kind = "Network",
    namespaced,
    status = "NetworkStatus"
)]
#[derive(PartialEq)]
pub struct NetworkSpec {
    /// The addresses.
    pub cidr: String,
    /// The address of the gateway.
    pub gateway: String,
}

/// The observed state of a subnet, which the operator of the Networks writes.
#[schema]
#[derive(PartialEq, Default)]
#[serde(default)]
pub struct NetworkStatus {
    /// The condition `Ready`.
    #[schema(list_map_keys("type"))]
    pub conditions: Vec<Condition>,
}

impl Network {
    /// Whether the network exists as the spec is now.
    pub fn is_ready(&self) -> bool {
        let conditions = self.status.as_ref().map(|status| &status.conditions);
        let ready = conditions.and_then(|conditions| conditions::find(conditions, "Ready"));
        ready.is_some_and(|ready| {
            let observed = ready.observed_generation;
            ready.status == "True" && (observed.is_none() || observed == self.metadata.generation)
        })
    }
}
