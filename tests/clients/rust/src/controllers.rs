//! kube-runtime's Controller: an operator for boats with children, a finalizer, a status, events.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event as EventObject;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::finalizer::{Event as Step, finalizer};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;

use crate::custom::{Boat, boat};
use crate::session::{NAMESPACE, Session, expect};
use crate::typed::map;

type Failure = kube::runtime::finalizer::Error<kube::Error>;

const FINALIZER: &str = "rust.interop.example/moored";

/// The context of the reconcile function.
struct OperatorContext {
    client: Client,
    boats: Api<Boat>,
    maps: Api<ConfigMap>,
    recorder: Recorder,
}

pub async fn check(session: &mut Session) {
    let client = session.client.clone();
    session.check("controllers: an operator creates, repairs, finalizes", operate(client)).await;
}

async fn operate(client: Client) -> Result<()> {
    let boats: Api<Boat> = Api::namespaced(client.clone(), NAMESPACE);
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let recorder = Recorder::new(client.clone(), Reporter::from("harbor"));
    let cx =
        Arc::new(OperatorContext { client, boats: boats.clone(), maps: maps.clone(), recorder });
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let controller =
        Controller::new(boats.clone(), watcher::Config::default().labels("fleet=rust"))
            .owns(maps.clone(), watcher::Config::default())
            .graceful_shutdown_on(async { stopped.await.unwrap_or_default() })
            .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(100)), Arc::clone(&cx));
    let running = tokio::spawn(controller.for_each(|_| std::future::ready(())));

    let mut it = boat("flagship");
    it.metadata.labels = Some([("fleet".to_owned(), "rust".to_owned())].into());
    let uid = boats.create(&PostParams::default(), &it).await?.uid().context("it has a uid")?;
    let aboard = |wanted| move |it: Option<&Boat>| aboard(it) == Some(wanted);
    await_condition(boats.clone(), "flagship", aboard(1)).await?;
    expect("finalizers", boats.get("flagship").await?.finalizers(), [FINALIZER])?;

    // The child is created again, and is updated with its owner.
    maps.delete("log-of-flagship", &DeleteParams::default()).await?;
    await_condition(maps.clone(), "log-of-flagship", conditions::is_created()).await?;
    let two = json!({"spec": {"crew": 2}});
    boats.patch("flagship", &PatchParams::default(), &Patch::Merge(&two)).await?;
    await_condition(boats.clone(), "flagship", aboard(2)).await?;
    let log = maps.get("log-of-flagship").await?;
    expect("log", log.data.and_then(|it| it.get("key").cloned()).as_deref(), Some("2"))?;
    expect("owner", log.metadata.owner_references.map(|it| it[0].uid.clone()), Some(uid.clone()))?;

    boats.delete("flagship", &DeleteParams::default()).await?;
    await_condition(boats.clone(), "flagship", conditions::is_deleted(&uid)).await?;
    expect("after cleanup", maps.get_opt("log-of-flagship").await?.is_some(), false)?;
    let events: Api<EventObject> = Api::namespaced(cx.client.clone(), NAMESPACE);
    let moored = events.list(&ListParams::default().fields("reason=Moored")).await?;
    expect("events", moored.items.is_empty(), false)?;
    drop(stop);
    running.await?;
    Ok(())
}

fn aboard(it: Option<&Boat>) -> Option<i32> {
    it?.status.as_ref().map(|it| it.aboard)
}

async fn reconcile(it: Arc<Boat>, cx: Arc<OperatorContext>) -> Result<Action, Failure> {
    let inner = Arc::clone(&cx);
    finalizer(&cx.boats, FINALIZER, it, |step| async move {
        match step {
            Step::Apply(it) => write_child_and_status(&it, &inner).await?,
            Step::Cleanup(it) => {
                let name = format!("log-of-{}", it.name_any());
                inner.maps.delete(&name, &DeleteParams::default()).await?;
            }
        }
        Ok(Action::await_change())
    })
    .await
}

/// Writes the boat's child and status.
async fn write_child_and_status(it: &Boat, cx: &OperatorContext) -> kube::Result<()> {
    let name = it.name_any();
    let mut log = map(&format!("log-of-{name}"), &it.spec.crew.to_string());
    log.metadata.owner_references = it.controller_owner_ref(&()).map(|it| vec![it]);
    let manager = PatchParams::apply("harbor").force();
    cx.maps.patch(&log.name_any(), &manager, &Patch::Apply(&log)).await?;
    if aboard(Some(it)) == Some(it.spec.crew) {
        return Ok(());
    }
    let event = Event {
        type_: EventType::Normal,
        reason: "Moored".to_owned(),
        note: Some(format!("{} aboard", it.spec.crew)),
        action: "Mooring".to_owned(),
        secondary: None,
    };
    cx.recorder.publish(&event, &it.object_ref(&())).await?;
    let status = json!({"apiVersion": Boat::api_version(&()), "kind": Boat::kind(&()),
        "status": {"aboard": it.spec.crew}});
    cx.boats.patch_status(&name, &manager, &Patch::Apply(&status)).await?;
    Ok(())
}
