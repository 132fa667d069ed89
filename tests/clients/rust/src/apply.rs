//! Server-side apply: managed fields, conflicts, force.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::custom::Boat;
use crate::session::{Session, expect, expect_refusal};

pub async fn check(session: &mut Session) {
    session.check("apply: managers and conflicts", conflicts(&session.api())).await;
    session.check("apply: lists are merged by key", lists(&session.api())).await;
    session.check("apply: boats and their status", boats(&session.api())).await;
}

fn config(data: &Value) -> Patch<Value> {
    let metadata = json!({"name": "owned"});
    Patch::Apply(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}),
    )
}

async fn conflicts(maps: &Api<ConfigMap>) -> Result<()> {
    let (one, two) = (PatchParams::apply("one"), PatchParams::apply("two"));
    maps.patch("owned", &one, &config(&json!({"a": "1", "b": "1"}))).await?;
    let refused = maps.patch("owned", &two, &config(&json!({"a": "2"}))).await;
    expect_refusal(refused, 409, "conflict with \"one\": .data.a")?;
    let it = maps.patch("owned", &two.clone().force(), &config(&json!({"a": "2"}))).await?;
    let mut owners: Vec<&str> =
        it.managed_fields().iter().filter_map(|it| it.manager.as_deref()).collect();
    owners.sort_unstable();
    expect("owners", owners, ["one", "two"])?;
    // A field without any remaining manager is removed.
    let it = maps.patch("owned", &one, &config(&json!({}))).await?;
    let data = it.data.context("it has data")?;
    expect("left", data.into_iter().collect::<Vec<_>>(), [("a".to_owned(), "2".to_owned())])
}

async fn lists(services: &Api<Service>) -> Result<()> {
    let ports = |ports: Value| {
        Patch::Apply(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "doors"},
            "spec": {"ports": ports}}))
    };
    let http = json!([{"name": "http", "port": 80}]);
    let https = json!([{"name": "https", "port": 443}]);
    services.patch("doors", &PatchParams::apply("one"), &ports(http)).await?;
    let it = services.patch("doors", &PatchParams::apply("two"), &ports(https)).await?;
    let found = it.spec.and_then(|it| it.ports).unwrap_or_default();
    expect("ports", found.iter().map(|it| it.port).collect::<Vec<_>>(), [80, 443])?;
    let it = services.patch("doors", &PatchParams::apply("one"), &ports(json!([]))).await?;
    let found = it.spec.and_then(|it| it.ports).unwrap_or_default();
    expect("ports", found.iter().map(|it| it.port).collect::<Vec<_>>(), [443])
}

async fn boats(boats: &Api<Boat>) -> Result<()> {
    let kind = json!({"apiVersion": "rust.interop.example/v1", "kind": "Boat",
        "metadata": {"name": "sloop"}});
    let with = |field: &str, value: Value| {
        let mut it = kind.clone();
        it[field] = value;
        Patch::Apply(it)
    };
    let captain = PatchParams::apply("captain");
    boats.patch("sloop", &captain, &with("spec", json!({"crew": 3}))).await?;
    let status = with("status", json!({"aboard": 3}));
    let it = boats.patch_status("sloop", &PatchParams::apply("harbor"), &status).await?;
    expect("aboard", it.status.as_ref().map(|it| it.aboard), Some(3))?;
    let parts: Vec<_> = it
        .managed_fields()
        .iter()
        .map(|it| (it.manager.as_deref(), it.subresource.as_deref()))
        .collect();
    expect("owners", parts, [(Some("captain"), None), (Some("harbor"), Some("status"))])?;
    let refused =
        boats.patch("sloop", &PatchParams::apply("crew"), &with("spec", json!({"crew": 1}))).await;
    expect_refusal(refused, 409, "conflict with \"captain\": .spec.crew")
}
