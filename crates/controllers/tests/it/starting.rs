//! The start and the end of the controllers.

use crate::plane::Plane;

#[tokio::test]
async fn a_plane_without_controllers_starts_and_stops() {
    let plane = Plane::start(&["none"]).await;
    assert_eq!(plane.read("/api/v1/namespaces/default").await["kind"], "Namespace");
    assert!(plane.controllers().manager().records("replicaset-controller").is_empty());
    plane.stop().await;
}
