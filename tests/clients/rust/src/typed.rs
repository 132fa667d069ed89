//! Built-in kinds with the types of k8s-openapi: verbs, patches, subresources.

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, pin_mut};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ServiceAccount};
use kube::Api;
use kube::api::{
    DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams, Preconditions,
    WatchEvent, WatchParams,
};
use serde_json::{Value, from_value, json};

use crate::session::{Session, expect, expect_refusal, named};

pub async fn check(session: &mut Session) {
    let maps: Api<ConfigMap> = session.api();
    session
        .check("typed: configmaps are created, read, changed and deleted", lifecycle(&maps))
        .await;
    session.check("typed: a stale writer is refused", stale(&maps)).await;
    session.check("typed: lists have pages and selectors", lists(&maps)).await;
    session.check("typed: patches of all types are accepted", patches(&maps)).await;
    session.check("typed: entries are created and changed", entries(&maps)).await;
    session.check("typed: a watch reports all events", watch(&maps)).await;
    session.check("typed: pods have a status and are evicted", pods(&session.api())).await;
    session.check("typed: deployments are scaled and restarted", scale(&session.api())).await;
    session.check("typed: service accounts get tokens", tokens(&session.api())).await;
}

pub fn map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: named(name),
        data: Some([("key".to_owned(), value.to_owned())].into()),
        ..ConfigMap::default()
    }
}

async fn lifecycle(maps: &Api<ConfigMap>) -> Result<()> {
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    maps.create(&dry, &map("alive", "1")).await?;
    expect("after a dry run", maps.get_opt("alive").await?, None)?;
    let mut it = maps.create(&PostParams::default(), &map("alive", "1")).await?;
    expect_refusal(maps.create(&dry, &map("alive", "1")).await, 409, "already exists")?;
    it.data.as_mut().context("it has data")?.insert("more".to_owned(), "2".to_owned());
    let it = maps.replace("alive", &PostParams::default(), &it).await?;
    expect("data", it.data.map(|it| it.len()), Some(2))?;
    let metadata = maps.get_metadata("alive").await?;
    expect("uid", &metadata.metadata.uid, &it.metadata.uid)?;
    let other = Preconditions { uid: Some("other".to_owned()), ..Preconditions::default() };
    let refused = maps.delete("alive", &DeleteParams::default().preconditions(other)).await;
    expect_refusal(refused, 409, "the UID in the precondition (other) does not match")?;
    maps.delete("alive", &DeleteParams::default()).await?;
    expect_refusal(maps.get("alive").await, 404, "configmaps \"alive\" not found")
}

async fn stale(maps: &Api<ConfigMap>) -> Result<()> {
    let first = maps.create(&PostParams::default(), &map("stale", "1")).await?;
    maps.replace("stale", &PostParams::default(), &ConfigMap { data: None, ..first.clone() })
        .await?;
    let late = maps.replace("stale", &PostParams::default(), &first).await;
    expect_refusal(late, 409, "the object has been modified")
}

async fn lists(maps: &Api<ConfigMap>) -> Result<()> {
    for index in 0..5 {
        let mut it = map(&format!("page-{index}"), "1");
        it.metadata.labels = Some([("book".to_owned(), "one".to_owned())].into());
        maps.create(&PostParams::default(), &it).await?;
    }
    let book = ListParams::default().labels("book=one");
    let mut names = Vec::new();
    let mut page = maps.list(&book.clone().limit(2)).await?;
    loop {
        names.extend(page.items.into_iter().filter_map(|it| it.metadata.name));
        match page.metadata.continue_.filter(|it| !it.is_empty()) {
            Some(token) => page = maps.list(&book.clone().limit(2).continue_token(&token)).await?,
            None => break,
        }
    }
    expect("names", names, ["page-0", "page-1", "page-2", "page-3", "page-4"])?;
    let one = maps.list(&ListParams::default().fields("metadata.name=page-3")).await?;
    expect("by field", one.items.len(), 1)?;
    expect("metadata", maps.list_metadata(&book).await?.items.len(), 5)?;
    maps.delete_collection(&DeleteParams::default(), &book).await?;
    expect("after deletion", maps.list(&book).await?.items.len(), 0)
}

async fn patches(maps: &Api<ConfigMap>) -> Result<()> {
    maps.create(&PostParams::default(), &map("patched", "1")).await?;
    let plain = PatchParams::default();
    let merge = json!({"data": {"merge": "1"}});
    maps.patch("patched", &plain, &Patch::Merge(&merge)).await?;
    let strategic = json!({"data": {"strategic": "1", "key": null}});
    maps.patch("patched", &plain, &Patch::Strategic(&strategic)).await?;
    let operations = json!([{"op": "add", "path": "/data/operation", "value": "1"}]);
    let operations = Patch::Json::<()>(from_value(operations)?);
    let it = maps.patch("patched", &plain, &operations).await?;
    let keys: Vec<String> = it.data.unwrap_or_default().into_keys().collect();
    expect("keys", keys, ["merge", "operation", "strategic"])?;
    let unknown = json!({"dota": {}});
    let strict = plain.validation_strict();
    let refused = maps.patch("patched", &strict, &Patch::Merge(&unknown)).await;
    expect_refusal(refused, 422, "unknown field \"dota\"")
}

async fn entries(maps: &Api<ConfigMap>) -> Result<()> {
    let mut entry = maps.entry("entered").await?.or_insert(|| map("entered", "1"));
    entry.commit(&PostParams::default()).await?;
    entry.get_mut().data = None;
    entry.commit(&PostParams::default()).await?;
    expect("data", maps.get("entered").await?.data, None)
}

async fn watch(maps: &Api<ConfigMap>) -> Result<()> {
    let version = maps.list(&ListParams::default()).await?.metadata.resource_version;
    let version = version.context("a list has a version")?;
    maps.create(&PostParams::default(), &map("watched", "1")).await?;
    let patch = json!({"data": {"key": "2"}});
    maps.patch("watched", &PatchParams::default(), &Patch::Merge(&patch)).await?;
    maps.delete("watched", &DeleteParams::default()).await?;
    let events = maps.watch(&WatchParams::default().labels("run=watched"), &version).await?;
    pin_mut!(events);
    let mut seen = Vec::new();
    while let Some(event) = events.try_next().await? {
        match event {
            WatchEvent::Added(_) => seen.push("added"),
            WatchEvent::Modified(_) => seen.push("modified"),
            WatchEvent::Deleted(_) => break,
            other => anyhow::bail!("{other:?}"),
        }
    }
    expect("events", seen, ["added", "modified"])?;
    let short = WatchParams::default().timeout(1).labels("no=body");
    let events: Vec<_> = maps.watch(&short, &version).await?.collect().await;
    let count = events.iter().filter(|it| !matches!(it, Ok(WatchEvent::Bookmark(_)))).count();
    expect("events of a watch after its timeout", count, 0)
}

async fn pods(pods: &Api<Pod>) -> Result<()> {
    let pod: Pod = from_value(json!({"metadata": {"name": "one"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}}))?;
    pods.create(&PostParams::default(), &pod).await?;
    let ready = json!({"status": {"phase": "Running"}, "spec": {"nodeName": "ignored"}});
    let it = pods.patch_status("one", &PatchParams::default(), &Patch::Merge(&ready)).await?;
    expect("phase", it.status.and_then(|it| it.phase).as_deref(), Some("Running"))?;
    expect("node", it.spec.and_then(|it| it.node_name), None)?;
    let mut it = pods.get_status("one").await?;
    it.status.get_or_insert_default().message = Some("well".to_owned());
    let it = pods.replace_status("one", &PostParams::default(), &it).await?;
    expect("message", it.status.and_then(|it| it.message).as_deref(), Some("well"))?;
    let now = DeleteParams::default().grace_period(0);
    let now = EvictParams { delete_options: Some(now), ..EvictParams::default() };
    pods.evict("one", &now).await?;
    expect("after eviction", pods.get_opt("one").await?.is_some(), false)
}

async fn scale(deployments: &Api<Deployment>) -> Result<()> {
    let template = json!({"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let it: Deployment = from_value(json!({"metadata": {"name": "scaled"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}))?;
    deployments.create(&PostParams::default(), &it).await?;
    let mut scale = deployments.get_scale("scaled").await?;
    expect("at first", scale.spec.as_ref().and_then(|it| it.replicas), Some(1))?;
    let three = json!({"spec": {"replicas": 3}});
    let plain = PatchParams::default();
    deployments.patch_scale("scaled", &plain, &Patch::Merge(&three)).await?;
    scale = deployments.get_scale("scaled").await?;
    scale.spec.get_or_insert_default().replicas = Some(5);
    deployments.replace_scale("scaled", &PostParams::default(), &scale).await?;
    let it = deployments.restart("scaled").await?;
    let spec = it.spec.context("it has a spec")?;
    expect("replicas", spec.replicas, Some(5))?;
    let annotations = spec.template.metadata.and_then(|it| it.annotations).unwrap_or_default();
    expect("restarted", annotations.contains_key("kube.kubernetes.io/restartedAt"), true)
}

async fn tokens(accounts: &Api<ServiceAccount>) -> Result<()> {
    let account: ServiceAccount = from_value(json!({"metadata": {"name": "robot"}}))?;
    accounts.create(&PostParams::default(), &account).await?;
    let request: Value = json!({"spec": {"audiences": ["x"], "expirationSeconds": 3600}});
    let request = from_value(request)?;
    let answer = accounts.create_token_request("robot", &PostParams::default(), &request).await?;
    let token = answer.status.context("it has a status")?.token;
    expect("parts", token.split('.').count(), 3)
}
