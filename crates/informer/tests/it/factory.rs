//! Informers that are shared, and reads through a lister.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::Deserialize;

use crate::server::Server;
use informer::{Form, HandlerOptions, InformerFactory, InformerOptions, ListWatch, Scope};
use keel::{Clock, Entropy, Tasks};
use machinery::GroupVersion;
use machinery::selector::LabelSelector;

#[derive(Deserialize)]
struct Thing {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

fn factory(server: &Server) -> (InformerFactory, Arc<AtomicUsize>) {
    let (made, server) = (Arc::new(AtomicUsize::new(0)), server.clone());
    let count = Arc::clone(&made);
    let source = move |_: &Scope| -> Arc<dyn ListWatch> {
        count.fetch_add(1, Ordering::Relaxed);
        Arc::new(server.clone())
    };
    let (clock, entropy) = (Clock::system(), Entropy::seeded(1));
    let factory =
        InformerFactory::new(source, InformerOptions::default(), &clock, &entropy, &Tasks::new());
    (factory, made)
}

fn things() -> Scope {
    Scope::all(GroupVersion::new("", "v1"), "things")
}

#[tokio::test]
async fn equal_scopes_share_one_informer() {
    let server = Server::new();
    server.put("a", "red");
    server.put("b", "blue");
    let (factory, made) = factory(&server);
    let mut red = things();
    red.selection.labels = LabelSelector::parse("color=red").unwrap();
    let all = factory.informer(&things());
    let reds = factory.informer(&red);
    assert!(Arc::ptr_eq(all.indexer(), factory.informer(&things()).indexer()));
    factory.informer(&Scope { form: Form::Metadata, ..things() });
    assert_eq!(made.load(Ordering::Relaxed), 3);

    factory.start();
    factory.start();
    factory.wait_for_sync().await.unwrap();
    let names = |listed: informer::Listed<Thing>| -> Vec<String> {
        listed.objects.into_iter().map(|thing| thing.metadata.name).collect()
    };
    assert_eq!(names(all.lister().list()), ["a", "b"]);
    assert_eq!(names(reds.lister().list_namespace("n")), ["a"]);
    let selector = LabelSelector::parse("color!=red").unwrap();
    assert_eq!(names(all.lister().select(Some("n"), &selector)), ["b"]);
    all.indexer().add_index("color", |item| item.labels().into_values().collect());
    assert_eq!(names(all.lister().by_index("color", "blue").unwrap()), ["b"]);
    let found: Option<Thing> = all.lister().get("n", "a").unwrap();
    assert_eq!(found.unwrap().metadata.name, "a");
    factory.shutdown(Duration::from_secs(5)).await.unwrap();
}

#[tokio::test]
async fn a_stopped_factory_names_the_informers_that_have_not_synced() {
    let server = Server::new();
    server.state().absent = true;
    let (factory, _) = factory(&server);
    factory.informer(&things());
    factory.start();
    factory.shutdown(Duration::from_secs(5)).await.unwrap();
    let never = factory.wait_for_sync().await.unwrap_err();
    assert_eq!(never.0, ["things.v1"]);
}

#[tokio::test]
async fn waiting_ends_when_the_factory_is_stopped() {
    let server = Server::new();
    server.state().absent = true;
    let (factory, _) = factory(&server);
    let informer = factory.informer(&things());
    let mut subscription = informer.subscribe(&HandlerOptions::default());
    let (mut synced, mut handler_synced) = (informer.has_synced(), subscription.synced());
    let waiting = async {
        let (event, synced, handler_synced) =
            tokio::join!(subscription.next(), synced.wait(), handler_synced.wait());
        (event.is_some(), synced, handler_synced)
    };
    let stop = async {
        tokio::task::yield_now().await;
        factory.shutdown(Duration::from_secs(5)).await.unwrap();
    };
    // The factory was never started; waiting must end nevertheless.
    let (waited, ()) = tokio::join!(tokio::time::timeout(Duration::from_secs(5), waiting), stop);
    assert_eq!(waited.unwrap(), (false, false, false));
    assert!(informer.subscribe(&HandlerOptions::default()).next().await.is_none());
}

#[tokio::test]
async fn events_from_before_the_stop_can_still_be_read() {
    let server = Server::new();
    server.put("a", "red");
    let (factory, _) = factory(&server);
    let informer = factory.informer(&things());
    let mut subscription = informer.subscribe(&HandlerOptions::default());
    factory.start();
    factory.wait_for_sync().await.unwrap();
    factory.shutdown(Duration::from_secs(5)).await.unwrap();
    assert_eq!(subscription.next().await.unwrap().item().name(), "a");
    assert!(subscription.next().await.is_none());
}

#[tokio::test]
async fn an_object_that_cannot_be_decoded_does_not_hide_the_others() {
    #[derive(Deserialize)]
    struct Strict {
        #[allow(dead_code, reason = "only decoding is tested")]
        spec: Spec,
    }
    #[derive(Deserialize)]
    struct Spec {
        #[allow(dead_code, reason = "only decoding is tested")]
        revision: u64,
    }
    let server = Server::new();
    for name in ["a", "b", "c"] {
        server.put(name, "red");
    }
    for object in server.state().objects.values_mut().skip(1).take(1) {
        object["spec"]["revision"] = "not a number".into();
    }
    let (factory, _) = factory(&server);
    let informer = factory.informer(&things());
    factory.start();
    factory.wait_for_sync().await.unwrap();
    let listed = informer.lister::<Strict>().list();
    assert_eq!((listed.objects.len(), listed.errors.len()), (2, 1));
    assert_eq!(listed.errors[0].item.name(), "b");
    assert!(informer.lister::<Strict>().get("n", "b").is_err());
    factory.shutdown(Duration::from_secs(5)).await.unwrap();
}
