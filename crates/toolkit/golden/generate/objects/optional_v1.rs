//! The kind `Optional` of example.com/v1.
//!
//! `sampan generate` has made it from the CRD optionals.example.com.

#![allow(clippy::all, clippy::pedantic, reason = "generated")]
#![allow(dead_code, missing_docs, unreachable_pub, reason = "generated")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use runtime::{resource, schema};

#[resource(
    group = "example.com",
    version = "v1",
    kind = "Optional",
    plural = "optionals",
    status = "OptionalStatus",
    status_subresource = false,
    optional_spec,
    derive = "PartialEq",
    nullable = false,
    object_rule("self.metadata.name.size() <= 40", message = "no room for a suffix")
)]
#[derive(PartialEq, Default)]
pub struct OptionalSpec {
    pub name: String,
}

#[schema(nullable = false)]
#[derive(PartialEq, Default)]
pub struct OptionalStatus {
    #[schema(
        list_map_keys("type"),
        patch(
            "items" = {"properties": {"message": {"maxLength": 32768}, "observedGeneration": {"minimum": 0}, "reason": {"minLength": 1, "pattern": "^[A-Za-z]+$"}, "status": {"enum": ["True", "False", "Unknown"]}, "type": {"maxLength": 316}}}
        )
    )]
    pub conditions: Option<Vec<Condition>>,
    pub ready: Option<bool>,
}
