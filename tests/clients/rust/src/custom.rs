//! A custom resource by kube's derive: CRD, rules, defaults and subresources.

use anyhow::{Context, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, CustomResource, CustomResourceExt, KubeSchema, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::session::{Session, expect, expect_refusal};

/// The desired state of a boat.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, Serialize, Deserialize)]
#[kube(
    group = "rust.interop.example",
    version = "v1",
    kind = "Boat",
    namespaced,
    status = "BoatStatus",
    shortname = "bt",
    scale(spec_replicas_path = ".spec.crew", status_replicas_path = ".status.aboard"),
    printcolumn(name = "Crew", type_ = "integer", json_path = ".spec.crew"),
    selectable = ".spec.port",
    validation = "self.metadata.name != 'titanic'"
)]
pub struct BoatSpec {
    #[serde(default = "one")]
    #[x_kube(validation = Rule::new("self >= 1").message("a boat needs a crew"))]
    pub crew: i32,
    #[serde(default)]
    pub port: String,
}

/// The observed state of a boat.
#[derive(Clone, Debug, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct BoatStatus {
    pub aboard: i32,
}

fn one() -> i32 {
    1
}

/// A boat with a crew of one.
pub fn boat(name: &str) -> Boat {
    Boat::new(name, BoatSpec { crew: 1, port: "home".to_owned() })
}

pub async fn check(session: &mut Session) {
    let crds = Api::all(session.client.clone());
    session.check("custom: a derived CRD is established", create_crd(&crds)).await;
    let boats: Api<Boat> = session.api();
    session.check("custom: boats are created, read, changed and deleted", lifecycle(&boats)).await;
    session.check("custom: violations of CEL rules are refused", rules(&boats)).await;
    session.check("custom: a boat has a status and is scaled", subresources(&boats)).await;
    session.check("custom: a boat exists until its finalizer is removed", finalizers(&boats)).await;
}

async fn create_crd(crds: &Api<CustomResourceDefinition>) -> Result<()> {
    let manager = PatchParams::apply("rust").force();
    let name = "boats.rust.interop.example";
    crds.patch(name, &manager, &Patch::Apply(Boat::crd())).await?;
    let established = conditions::is_crd_established();
    await_condition(crds.clone(), name, established).await?;
    Ok(())
}

async fn lifecycle(boats: &Api<Boat>) -> Result<()> {
    let mut it = boats.create(&PostParams::default(), &boat("dinghy")).await?;
    it.spec.crew = 2;
    let it = boats.replace("dinghy", &PostParams::default(), &it).await?;
    expect("generation", it.metadata.generation, Some(2))?;
    let away = json!({"spec": {"port": "away", "crew": null}});
    let it = boats.patch("dinghy", &PatchParams::default(), &Patch::Merge(&away)).await?;
    expect("crew, by default", it.spec.crew, 1)?;
    let found = boats.list(&kube::api::ListParams::default().fields("spec.port=away")).await?;
    expect("by selectable field", found.items.len(), 1)?;
    boats.delete("dinghy", &DeleteParams::default()).await?;
    expect("after deletion", boats.get_opt("dinghy").await?.is_some(), false)
}

async fn rules(boats: &Api<Boat>) -> Result<()> {
    let refused = boats.create(&PostParams::default(), &boat("titanic")).await;
    expect_refusal(refused, 422, "failed rule: self.metadata.name != 'titanic'")?;
    let mut adrift = boat("adrift");
    adrift.spec.crew = 0;
    let refused = boats.create(&PostParams::default(), &adrift).await;
    expect_refusal(refused, 422, "spec.crew: Invalid value: 0: a boat needs a crew")
}

async fn subresources(boats: &Api<Boat>) -> Result<()> {
    boats.create(&PostParams::default(), &boat("ferry")).await?;
    let status = json!({"status": {"aboard": 7}, "spec": {"crew": 9}});
    let it = boats.patch_status("ferry", &PatchParams::default(), &Patch::Merge(&status)).await?;
    expect("crew", it.spec.crew, 1)?;
    expect("aboard", it.status.map(|it| it.aboard), Some(7))?;
    let four = json!({"spec": {"replicas": 4}});
    let scale = boats.patch_scale("ferry", &PatchParams::default(), &Patch::Merge(&four)).await?;
    expect("scale", scale.status.map(|it| it.replicas), Some(7))?;
    expect("crew", boats.get("ferry").await?.spec.crew, 4)
}

async fn finalizers(boats: &Api<Boat>) -> Result<()> {
    let mut it = boat("anchored");
    it.metadata.finalizers = Some(vec!["rust.interop.example/anchor".to_owned()]);
    let uid = boats.create(&PostParams::default(), &it).await?.uid().context("it has a uid")?;
    let marked = boats.delete("anchored", &DeleteParams::default()).await?;
    let marked = marked.left().context("the boat was deleted at once")?;
    expect("marked", marked.metadata.deletion_timestamp.is_some(), true)?;
    let free = json!({"metadata": {"finalizers": null}});
    boats.patch("anchored", &PatchParams::default(), &Patch::Merge(&free)).await?;
    await_condition(boats.clone(), "anchored", conditions::is_deleted(&uid)).await?;
    Ok(())
}
