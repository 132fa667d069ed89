//! `Vpc`: the status of an object follows its spec.

use std::time::Duration;

use operator_demo::vpc::Vpc;

use crate::World;
use runtime::prelude::*;

const EXAMPLE: &str = include_str!("../../example/vpc.yaml");
const NAME: &str = "vpc-sample";

/// A server with the object of the example, which the operator has reconciled.
async fn start() -> (World, Api<Vpc>) {
    let world = World::start().await;
    world.create(&Vpc::url_path(&(), None), EXAMPLE).await;
    world.settle().await;
    let objects = Api::all(world.env.kube());
    (world, objects)
}

#[tokio::test]
async fn the_observed_state_follows_the_expected_one() {
    let (world, objects) = start().await;
    for replicas in [3, 1] {
        let mut object = objects.get(NAME).await.unwrap();
        object.spec.replicas = replicas;
        objects.replace(NAME, &PostParams::default(), &object).await.unwrap();
        world.settle().await;
        let status = objects.get(NAME).await.unwrap().status.unwrap();
        assert_eq!((status.replicas, status.conditions[0].status.as_str()), (replicas, "True"));
    }
    world.stop().await;
}

#[tokio::test]
async fn an_object_that_is_as_expected_is_not_written() {
    let (world, objects) = start().await;
    let before = objects.get(NAME).await.unwrap();
    world.env.advance(Duration::from_hours(1));
    world.settle().await;
    assert_eq!(objects.get(NAME).await.unwrap().metadata, before.metadata);
    world.stop().await;
}
