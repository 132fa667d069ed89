//! Controllers of kinds that are known at run time only, and typed indices and mappers.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_core::params::PostParams;
use kube_core::{DynamicObject, GroupVersionKind};

use crate::log::Log;
use crate::world::{MAPS, Running, Thing, World, options};
use machinery::json;
use runtime::client::RestMapperError;
use runtime::{
    Action, CONTROLLER_INDEX, Client, Controller, DynamicKind, Failure, Lister, Manager, Mapper,
    Request, owner,
};

const MINUTE: Duration = Duration::from_mins(1);

struct Context {
    client: Client,
    thing: DynamicKind,
    map: DynamicKind,
    things: Lister<DynamicObject>,
    maps: Lister<DynamicObject>,
}

/// Keeps one config map for each thing.
async fn keep_map(request: Request, cx: Arc<Context>) -> Result<Action, Failure> {
    let Some(thing) = cx.things.get_key(&request)? else { return Ok(Action::Done) };
    let uid = thing.metadata.uid.clone().unwrap_or_default();
    if !cx.maps.by_index(CONTROLLER_INDEX, &uid)?.objects.is_empty() {
        return Ok(Action::Done);
    }
    let mut map = DynamicObject::new(request.name(), &cx.map.resource).within(request.namespace());
    map.data = json!({"data": {"size": thing.data["spec"]["size"].to_string()}});
    owner::set_dynamic_controller(&cx.thing, &thing, &mut map)?;
    cx.map.api(&cx.client, request.namespace()).create(&PostParams::default(), &map).await?;
    Ok(Action::Done)
}

#[tokio::test]
async fn a_controller_of_a_kind_that_is_known_at_run_time_restores_its_objects() {
    let world = World::new().await;
    world.create_thing("a", json!(3)).await;
    let manager = Manager::new(world.client.clone(), options());
    let kind = GroupVersionKind::gvk("example.com", "v1", "Thing");
    let thing = DynamicKind::discover(&world.client, &kind).await.unwrap();
    let map = GroupVersionKind::gvk("", "v1", "ConfigMap");
    let map = DynamicKind::discover(&world.client, &map).await.unwrap();
    assert!(thing.is_namespaced && thing.resource.plural == "things");
    let context = Context {
        client: manager.client(),
        things: manager.lister_dynamic(&thing),
        maps: manager.lister_dynamic(&map),
        thing: thing.clone(),
        map: map.clone(),
    };
    let controller = Controller::for_dynamic(&thing).owns_dynamic(&map);
    manager.add(controller.reconcile(keep_map, context));
    let running = Running::start(&manager);
    manager.settled(MINUTE).await.unwrap();
    let path = format!("{MAPS}/a");
    let created = world.env.read(&path).await;
    assert_eq!(created["data"]["size"], "3");
    assert_eq!(created["metadata"]["ownerReferences"][0]["kind"], "Thing");
    world.env.delete(&path).await;
    manager.settled(MINUTE).await.unwrap();
    let restored = world.env.read(&path).await;
    assert_ne!(restored["metadata"]["uid"], created["metadata"]["uid"]);
    assert!(!manager.records("thing").is_empty(), "it has the name of the kind");
    running.stop().await;
}

#[tokio::test]
async fn a_kind_that_is_not_served_is_not_discovered() {
    let world = World::new().await;
    let kind = GroupVersionKind::gvk("example.com", "v1", "Nothing");
    let error = DynamicKind::discover(&world.client, &kind).await.unwrap_err();
    assert!(matches!(error, RestMapperError::NoKindMatch(_)));
    let node = GroupVersionKind::gvk("", "v1", "Node");
    assert!(!DynamicKind::discover(&world.client, &node).await.unwrap().is_namespaced);
}

async fn succeed(_: Request, _: Arc<()>) -> Result<Action, Failure> {
    Ok(Action::Done)
}

#[tokio::test]
async fn what_does_not_decode_for_an_index_or_a_mapper_is_logged_once() {
    let log = Log::start();
    let world = World::new().await;
    world.create_thing("good", json!(3)).await;
    world.create_thing("bad", json!("three")).await;
    let manager = Manager::new(world.client.clone(), options());
    let things = manager.informer::<Thing>();
    things.indexer().add_typed_index("size", |thing: &Thing| vec![thing.spec.size.to_string()]);
    let to_map = Mapper::typed(|thing: &Thing| {
        vec![Request::new("default", &format!("size-{}", thing.spec.size))]
    });
    let controller = Controller::for_::<ConfigMap>().watches::<Thing>(to_map);
    manager.add(controller.reconcile(succeed, ()));
    let running = Running::start(&manager);
    manager.settled(MINUTE).await.unwrap();
    let mut reconciled = manager.records("configmap");
    reconciled.retain(|record| record.request.name().starts_with("size-"));
    assert_eq!(reconciled.len(), 1);
    let label = json!({"metadata": {"labels": {"changed": "true"}}});
    world.env.merge("/apis/example.com/v1/namespaces/default/things/bad", &label).await;
    manager.settled(MINUTE).await.unwrap();
    assert_eq!(things.indexer().by_index("size", "3").unwrap().len(), 1);
    for purpose in ["the index \"size\"", "the objects that are mapped to requests"] {
        let lines = log.lines(&format!("is left out of {purpose}"));
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("object=default/bad"), "{lines:?}");
    }
    running.stop().await;
}
