//! The caches show the writes of the manager's client although the watches fail.

use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_core::params::{DeleteParams, ListParams, Patch, PatchParams, PostParams};

use crate::faulty::{FaultyClient, RequestOutcome};
use crate::world::{Running, World, options, until};
use informer::{Lister, SharedInformer};
use keel::Entropy;
use machinery::json;
use runtime::{Api, Manager, ManagerOptions};

/// A running manager whose watches fail, with its cache of config maps.
struct WithoutWatches {
    running: Running,
    faulty: FaultyClient,
    maps: Api<ConfigMap>,
    lister: Lister<ConfigMap>,
    informer: SharedInformer,
}

pub(crate) fn refuse_watches(_: &Method, target: &str) -> RequestOutcome {
    match target {
        // Initial events are refused, so the manager lists, which succeeds, and watches, which fails.
        _ if target.contains("sendInitialEvents") => RequestOutcome::Refused(400),
        _ if target.contains("watch=true") => RequestOutcome::Refused(503),
        _ => RequestOutcome::Served,
    }
}

async fn start_without_watches(world: &World) -> WithoutWatches {
    let (faulty, client) = world.faulty();
    faulty.decide(refuse_watches);
    let manager = Manager::new(client, options());
    let (informer, lister) = (manager.informer::<ConfigMap>(), manager.lister::<ConfigMap>());
    let running = Running::start(&manager);
    let maps = Api::<ConfigMap>::namespaced(manager.client(), "default");
    let probe = map("probe");
    until("it writes", async || maps.create(&PostParams::default(), &probe).await.is_ok()).await;
    WithoutWatches { running, faulty, maps, lister, informer }
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"a": "1"}})).unwrap()
}

fn generated() -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"generateName": "made-"}})).unwrap()
}

fn made(objects: Vec<ConfigMap>) -> usize {
    let names = objects.into_iter().filter_map(|map| map.metadata.name);
    names.filter(|name| name.starts_with("made-")).count()
}

#[tokio::test]
async fn the_cache_shows_every_kind_of_write_when_it_returns() {
    let world = World::new().await;
    let WithoutWatches { running, maps, lister, informer, .. } =
        start_without_watches(&world).await;
    let data = |name: &str| {
        lister.get("default", name).unwrap().and_then(|map| map.data).map(|data| data["a"].clone())
    };
    let created = maps.create(&PostParams::default(), &map("a")).await.unwrap();
    assert_eq!(data("a").as_deref(), Some("1"));
    let mut changed = created;
    changed.data.as_mut().unwrap().insert("a".to_owned(), "2".to_owned());
    maps.replace("a", &PostParams::default(), &changed).await.unwrap();
    assert_eq!(data("a").as_deref(), Some("2"));
    let patch = Patch::Merge(json!({"data": {"a": "3"}}));
    maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(data("a").as_deref(), Some("3"));
    let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "4"}});
    maps.patch("a", &PatchParams::apply("test").force(), &Patch::Apply(applied)).await.unwrap();
    assert_eq!(data("a").as_deref(), Some("4"));
    let dry = PatchParams { dry_run: true, ..PatchParams::default() };
    maps.patch("a", &dry, &Patch::Merge(json!({"data": {"a": "5"}}))).await.unwrap();
    assert_eq!(data("a").as_deref(), Some("4"), "a dry run writes nothing");
    maps.delete("a", &DeleteParams::default().dry_run()).await.unwrap();
    assert_eq!(data("a").as_deref(), Some("4"), "a dry run deletes nothing");
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(data("a"), None);
    let made = maps.create(&PostParams::default(), &generated()).await.unwrap();
    let name = made.metadata.name.unwrap();
    assert!(name.starts_with("made-") && name.len() == 10, "{name}");
    assert!(lister.get("default", &name).unwrap().is_some());
    assert!(
        informer.reflector_status().borrow().last_error.is_some(),
        "the watch must not have helped"
    );
    running.stop().await;
}

#[tokio::test]
async fn another_name_is_generated_if_the_first_exists() {
    let world = World::new().await;
    let mut names = Vec::new();
    for _ in 0..2 {
        // The second manager generates the same names as the first.
        let entropy = Entropy::seeded(7);
        let manager = Manager::new(world.faulty().1, ManagerOptions { entropy, ..options() });
        let running = Running::start(&manager);
        let maps = Api::<ConfigMap>::namespaced(manager.client(), "default");
        until("it writes", async || {
            maps.delete("absent", &DeleteParams::default()).await.is_err_and(
                |error| matches!(error, kube_client::Error::Api(status) if status.code == 404),
            )
        })
        .await;
        names.push(maps.create(&PostParams::default(), &generated()).await.unwrap().metadata.name);
        running.stop().await;
    }
    assert_ne!(names[0], names[1]);
}

#[tokio::test]
async fn an_object_that_is_written_back_from_the_cache_keeps_its_managed_fields() {
    let world = World::new().await;
    let WithoutWatches { running, maps, lister, .. } = start_without_watches(&world).await;
    let by = |manager: &str| PostParams {
        field_manager: Some(manager.to_owned()),
        ..PostParams::default()
    };
    maps.create(&by("author"), &map("a")).await.unwrap();
    let mut cached = lister.get("default", "a").unwrap().unwrap();
    assert_eq!(cached.metadata.managed_fields, None);
    cached.data.as_mut().unwrap().insert("b".to_owned(), "2".to_owned());
    let written = maps.replace("a", &by("operator"), &cached).await.unwrap();
    let entries = written.metadata.managed_fields.unwrap_or_default();
    let managers: Vec<_> = entries.into_iter().filter_map(|entry| entry.manager).collect();
    assert_eq!(managers, ["author", "operator"]);
    running.stop().await;
}

#[tokio::test]
async fn a_deleted_object_with_a_finalizer_stays() {
    let world = World::new().await;
    let WithoutWatches { running, maps, lister, .. } = start_without_watches(&world).await;
    let mut held = map("held");
    held.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    maps.create(&PostParams::default(), &held).await.unwrap();
    maps.delete("held", &DeleteParams::default()).await.unwrap();
    let cached = lister.get("default", "held").unwrap().unwrap();
    assert!(cached.metadata.deletion_timestamp.is_some());
    running.stop().await;
}

#[tokio::test]
async fn a_creation_whose_response_was_lost_is_not_repeated() {
    let world = World::new().await;
    let WithoutWatches { running, faulty, maps, lister, .. } = start_without_watches(&world).await;
    faulty.decide(|method, target| match *method {
        Method::POST => RequestOutcome::ResponseLost,
        _ => refuse_watches(method, target),
    });
    maps.create(&PostParams::default(), &generated()).await.unwrap_err();
    assert_eq!(made(lister.list().objects), 0, "the cache does not show it yet");
    faulty.decide(refuse_watches);
    let refused = maps.create(&PostParams::default(), &generated()).await.unwrap_err();
    assert!(refused.to_string().contains("had succeeded;"), "{refused}");
    assert_eq!(made(lister.list().objects), 1, "the lookup has updated the cache");
    maps.create(&PostParams::default(), &generated()).await.unwrap();
    assert_eq!(made(lister.list().objects), 2);
    assert_eq!(made(maps.list(&ListParams::default()).await.unwrap().items), 2);
    running.stop().await;
}

#[tokio::test]
async fn a_creation_whose_response_was_cut_is_not_repeated() {
    let world = World::new().await;
    let WithoutWatches { running, faulty, maps, lister, .. } = start_without_watches(&world).await;
    faulty.decide(|method, target| match *method {
        Method::POST => RequestOutcome::ResponseCut,
        _ => refuse_watches(method, target),
    });
    maps.create(&PostParams::default(), &generated()).await.unwrap_err();
    faulty.decide(refuse_watches);
    let refused = maps.create(&PostParams::default(), &generated()).await.unwrap_err();
    assert!(refused.to_string().contains("had succeeded;"), "{refused}");
    assert_eq!(made(lister.list().objects), 1);
    running.stop().await;
}

#[tokio::test]
async fn a_pending_creation_and_the_next_one_do_not_both_succeed() {
    let world = World::new().await;
    let WithoutWatches { running, faulty, maps, lister, .. } = start_without_watches(&world).await;
    let hold = |method: &Method, target: &str| match *method {
        Method::POST => RequestOutcome::Held,
        _ => refuse_watches(method, target),
    };
    faulty.decide(hold);
    maps.create(&PostParams::default(), &generated()).await.unwrap_err();
    faulty.decide(refuse_watches);
    maps.create(&PostParams::default(), &generated()).await.unwrap();
    assert_eq!(faulty.serve_held().await, [409], "the late request has the same name");
    assert_eq!(made(maps.list(&ListParams::default()).await.unwrap().items), 1);

    // The other order: the creation succeeds after the lookup, and before the next creation.
    faulty.decide(hold);
    maps.create(&PostParams::default(), &generated()).await.unwrap_err();
    faulty.decide(|method, target| match *method {
        Method::POST => RequestOutcome::ServedAfterHeld,
        _ => refuse_watches(method, target),
    });
    let refused = maps.create(&PostParams::default(), &generated()).await.unwrap_err();
    assert!(refused.to_string().contains("had succeeded;"), "{refused}");
    assert_eq!(made(lister.list().objects), 2);
    assert_eq!(made(maps.list(&ListParams::default()).await.unwrap().items), 2);
    running.stop().await;
}
