//! Objects without types: discovery, and `DynamicObject`.

use anyhow::{Context, Result};
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
    PostParams,
};
use kube::discovery::{self, Discovery, Scope};
use kube::{Api, Client};
use serde_json::json;

use crate::session::{NAMESPACE, Session, expect};

pub async fn check(session: &mut Session) {
    let client = session.client.clone();
    session.check("dynamic: discovery finds all groups", groups(client.clone())).await;
    session.check("dynamic: a boat without its type", boat(client.clone())).await;
    session.check("dynamic: a built-in kind without its type", deployment(client)).await;
}

async fn groups(client: Client) -> Result<()> {
    expect("minor", client.apiserver_version().await?.minor.is_empty(), false)?;
    for found in [
        Discovery::new(client.clone()).run().await?,
        Discovery::new(client.clone()).run_aggregated().await?,
    ] {
        for (group, kind) in [("", "Pod"), ("apps", "Deployment"), ("rust.interop.example", "Boat")]
        {
            let found = found.get(group).with_context(|| format!("no group {group:?}"))?;
            let (resource, abilities) =
                found.recommended_kind(kind).with_context(|| format!("no kind {kind}"))?;
            expect(kind, abilities.scope == Scope::Namespaced, true)?;
            expect("plural", resource.plural, format!("{}s", kind.to_lowercase()))?;
        }
    }
    Ok(())
}

async fn boat(client: Client) -> Result<()> {
    let kind = GroupVersionKind::gvk("rust.interop.example", "v1", "Boat");
    let (resource, abilities) = discovery::pinned_kind(&client, &kind).await?;
    expect("status", abilities.subresources.iter().any(|(it, _)| it.plural == "status"), true)?;
    let api: Api<DynamicObject> = Api::namespaced_with(client, NAMESPACE, &resource);
    let it = DynamicObject::new("raft", &resource).data(json!({"spec": {"port": "here"}}));
    let it = api.create(&PostParams::default(), &it).await?;
    expect("crew, by default", &it.data["spec"]["crew"], &json!(1))?;
    let patch = json!({"spec": {"crew": 2}});
    let it = api.patch("raft", &PatchParams::default(), &Patch::Merge(&patch)).await?;
    expect("crew", &it.data["spec"]["crew"], &json!(2))?;
    let status = json!({"status": {"aboard": 2}});
    let it = api.patch_status("raft", &PatchParams::default(), &Patch::Merge(&status)).await?;
    expect("aboard", &it.data["status"]["aboard"], &json!(2))?;
    let all = api.list(&ListParams::default()).await?;
    expect("listed", all.items.iter().any(|it| it.metadata.name.as_deref() == Some("raft")), true)?;
    api.delete("raft", &DeleteParams::default()).await?;
    Ok(())
}

async fn deployment(client: Client) -> Result<()> {
    let kind = GroupVersionKind::gvk("apps", "v1", "Deployment");
    let api: Api<DynamicObject> =
        Api::namespaced_with(client, NAMESPACE, &ApiResource::from_gvk(&kind));
    let template = json!({"metadata": {"labels": {"d": "y"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let whole = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "untyped"},
        "spec": {"selector": {"matchLabels": {"d": "y"}}, "template": template}});
    let manager = PatchParams::apply("dynamic");
    let it = api.patch("untyped", &manager, &Patch::Apply(&whole)).await?;
    expect("replicas", &it.data["spec"]["replicas"], &json!(1))?;
    expect("strategy", &it.data["spec"]["strategy"]["type"], &json!("RollingUpdate"))?;
    api.delete("untyped", &DeleteParams::background()).await?;
    Ok(())
}
