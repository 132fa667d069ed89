//! The number of pods: one, three, one again, none, a hundred.

use std::time::Duration;

use crate::installation::{LIMIT, decode};
use crate::observer::Observer;
use crate::world::{CUSTOM_PODS, EXAMPLE, SAMPLE, World};
use machinery::Value;
use testenv::TestEnv;

#[tokio::test]
async fn the_number_of_pods_follows_the_replicas() {
    let mut world = World::new(1).await;
    let mut observer = Observer::new(&world, 1).await;
    world.start_operator();
    observer.settle(&world).await;
    assert_eq!(observer.live(), ["custompod-sample-0"]);
    for replicas in [3, 1, 0, 100, 1] {
        observer.record_desired_replicas(world.scale(replicas).await, replicas);
        observer.settle(&world).await;
    }
    let sample = world.env.read(&format!("{CUSTOM_PODS}/{SAMPLE}")).await;
    let pod = world.pods().get("custompod-sample-0").await.unwrap();
    let owner = &pod.metadata.owner_references.unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.controller), ("CustomPod", Some(true)));
    assert_eq!(Value::from(owner.uid.as_str()), sample["metadata"]["uid"]);
    assert_eq!(pod.metadata.labels.unwrap()["app"], SAMPLE);
    world.stop().await;
}

#[tokio::test]
async fn all_pods_are_created_or_deleted_in_one_reconcile() {
    let mut world = World::new(2).await;
    world.scale(40).await;
    let mut watch = world.env.watch(&format!("{CUSTOM_PODS}?watch=1")).await;
    world.start_operator();
    for replicas in [40, 3] {
        world.scale(replicas).await;
        // The number of pods after each reconcile.
        let mut reported = Vec::new();
        while reported.last() != Some(&Value::from(replicas)) {
            let (_, sample) = watch.next().await.unwrap();
            reported.push(sample["status"]["replicas"].clone());
        }
        reported.retain(|number| !matches!(number.as_u64(), None | Some(40)));
        assert!(reported.iter().all(|number| *number == 3), "{reported:?}");
    }
    world.stop().await;
}

#[tokio::test]
async fn the_newest_pending_pods_are_deleted_first() {
    let mut world = World::empty(TestEnv::builder()).await;
    let example = EXAMPLE.replace("replicas: 1", "replicas: 3");
    world.env.create(CUSTOM_PODS, &decode(&example)).await;
    world.start_operator();
    world.manager().settled(LIMIT).await.unwrap();
    world.set_phase("custompod-sample-2", "Running").await;
    world.env.advance(Duration::from_secs(10));
    world.delete("custompod-sample-0").await; // its replacement has the same name, and is newer
    world.manager().settled(LIMIT).await.unwrap();
    assert_eq!(world.pod_names().await.len(), 3);

    world.scale(2).await;
    world.manager().settled(LIMIT).await.unwrap();
    assert_eq!(world.pod_names().await, ["custompod-sample-1", "custompod-sample-2"]);
    world.scale(1).await;
    world.manager().settled(LIMIT).await.unwrap();
    assert_eq!(world.pod_names().await, ["custompod-sample-2"]);
    world.stop().await;
}

#[tokio::test]
async fn a_pod_that_is_being_deleted_or_has_ended_is_replaced_at_once() {
    let mut world = World::new(2).await;
    let mut observer = Observer::new(&world, 1).await;
    world.start_operator();
    observer.settle(&world).await;
    world.set_phase("custompod-sample-0", "Running").await;
    world.delete("custompod-sample-0").await;
    // The old pod still exists, and is being deleted.
    while observer.live() != ["custompod-sample-1"] {
        observer.read_next_event().await;
    }
    observer.settle(&world).await;
    assert_eq!(observer.known.len(), 2);
    world.set_phase("custompod-sample-1", "Failed").await;
    while observer.live() != ["custompod-sample-2"] {
        observer.read_next_event().await;
    }
    observer.settle(&world).await;
    world.stop().await;
}

#[tokio::test]
async fn the_status_is_written_only_when_it_changes() {
    let mut world = World::new(3).await;
    world.start_operator();
    world.manager().settled(LIMIT).await.unwrap();
    let path = format!("{CUSTOM_PODS}/{SAMPLE}");
    let before = world.env.read(&path).await["metadata"]["resourceVersion"].clone();
    let reconciles = world.manager().records("custompod").len();
    world.set_phase("custompod-sample-0", "Running").await;
    world.manager().settled(LIMIT).await.unwrap();
    assert!(world.manager().records("custompod").len() > reconciles);
    assert_eq!(world.env.read(&path).await["metadata"]["resourceVersion"], before);
    world.stop().await;
}

#[tokio::test]
async fn the_cause_of_each_reconcile_is_recorded() {
    let mut world = World::new(3).await;
    let mut observer = Observer::new(&world, 1).await;
    world.start_operator();
    observer.settle(&world).await;
    observer.record_desired_replicas(world.scale(2).await, 2);
    observer.settle(&world).await;
    let causes = world.causes().join("\n");
    assert!(causes.contains("CustomPod default/custompod-sample found"), "{causes}");
    let scaled =
        "CustomPod default/custompod-sample updated (.metadata.generation, .spec.replicas)";
    assert!(causes.contains(scaled), "{causes}");
    world.stop().await;
}
