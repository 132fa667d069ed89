//! kube-runtime's watcher and reflector: by list and watch, and by a streaming list.

use std::pin::pin;

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PartialObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::session::{Session, expect};
use crate::typed::map;

pub async fn check(session: &mut Session) {
    let maps: Api<ConfigMap> = session.api();
    for (name, config) in [
        ("listed", watcher::Config::default().page_size(2)),
        ("streamed", watcher::Config::default().streaming_lists()),
    ] {
        let watched = watch(&maps, name, config.clone());
        session.check(&format!("watches: a watcher reports all events ({name})"), watched).await;
        let reflected = reflect(&maps, name, config);
        session.check(&format!("watches: a reflector fills a store ({name})"), reflected).await;
    }
    session.check("watches: metadata alone", metadata(&maps, session.api())).await;
}

/// The names of the three maps of a group.
fn names(name: &str) -> [String; 3] {
    [0, 1, 2].map(|it| format!("{name}-{it}"))
}

/// Creates the three maps of a group.
async fn create(maps: &Api<ConfigMap>, label: &str) -> Result<()> {
    for name in names(label) {
        let mut it = map(&name, "1");
        it.metadata.labels = Some([("group".to_owned(), label.to_owned())].into());
        maps.create(&PostParams::default(), &it).await?;
    }
    Ok(())
}

async fn change(maps: &Api<ConfigMap>, name: &str) -> Result<()> {
    let patch = json!({"data": {"key": "2"}});
    maps.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

async fn watch(maps: &Api<ConfigMap>, name: &str, config: watcher::Config) -> Result<()> {
    let label = format!("watched-{name}");
    create(maps, &label).await?;
    let mut events = pin!(watcher(maps.clone(), config.labels(&format!("group={label}"))));
    let mut initial = Vec::new();
    loop {
        match events.try_next().await?.context("the watch ended")? {
            Event::Init => expect("begun", initial.len(), 0)?,
            Event::InitApply(it) => initial.push(it.name_any()),
            Event::InitDone => break,
            other => bail!("too early: {other:?}"),
        }
    }
    initial.sort();
    expect("at first", initial, names(&label))?;
    let first = format!("{label}-0");
    change(maps, &first).await?;
    maps.delete(&first, &DeleteParams::default()).await?;
    for expected in ["applied", "deleted"] {
        let (what, it) = match events.try_next().await?.context("the watch ended")? {
            Event::Apply(it) => ("applied", it),
            Event::Delete(it) => ("deleted", it),
            other => bail!("unexpected: {other:?}"),
        };
        expect("then", (what, it.name_any()), (expected, first.clone()))?;
    }
    Ok(())
}

async fn reflect(maps: &Api<ConfigMap>, name: &str, config: watcher::Config) -> Result<()> {
    let label = format!("reflected-{name}");
    create(maps, &label).await?;
    let (store, writer) = reflector::store();
    let config = config.labels(&format!("group={label}"));
    let mut events =
        watcher(maps.clone(), config).default_backoff().reflect(writer).applied_objects().boxed();
    let first = format!("{label}-0");
    let by_name = |store: &Store<ConfigMap>, name: &str| {
        store.get(&ObjectRef::new(name).within(crate::session::NAMESPACE))
    };
    for _ in 0..3 {
        events.try_next().await?.context("the watch ended")?;
    }
    // The reflector is polled until the store has all objects.
    tokio::select! {
        ready = store.wait_until_ready() => ready?,
        event = events.try_next() => bail!("unexpected: {event:?}"),
    }
    expect("reflected", store.len(), 3)?;
    change(maps, &first).await?;
    events.try_next().await?.context("the watch ended")?;
    let reflected = by_name(&store, &first).context("the store has the object")?;
    expect(
        "data",
        reflected.data.as_ref().and_then(|it| it.get("key")).map(String::as_str),
        Some("2"),
    )?;
    maps.delete(&first, &DeleteParams::default()).await?;
    let second = format!("{label}-1");
    change(maps, &second).await?;
    events.try_next().await?.context("the watch ended")?;
    expect("after deletion", by_name(&store, &first).is_some(), false)?;
    expect("left", store.len(), 2)
}

async fn metadata(maps: &Api<ConfigMap>, bare: Api<PartialObjectMeta<ConfigMap>>) -> Result<()> {
    create(maps, "bare").await?;
    let config = watcher::Config::default().labels("group=bare");
    let mut objects = pin!(watcher(bare, config).applied_objects());
    for _ in 0..3 {
        let it = objects.try_next().await?.context("the watch ended")?;
        expect("label", it.labels().get("group").map(String::as_str), Some("bare"))?;
    }
    Ok(())
}
