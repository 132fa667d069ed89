//! Events as the server keeps them.

use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube_client::api::PostParams;
use runtime::recorder::{Recorder, Reporter, Severity};
use serde_json::json;

use crate::plane::{Plane, until_any};

#[tokio::test]
async fn what_happens_again_is_counted() {
    let plane = Plane::start().await;
    let map = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    let map: ConfigMap = plane.api().create(&PostParams::default(), &map).await.unwrap();
    let Plane { client, clock, entropy, tasks, .. } = &plane;
    let reporter = Reporter::new("example.com/tester", "tester-0");
    let recorder = Recorder::start(client.clone(), reporter, clock, entropy, tasks);
    for _ in 0..3 {
        recorder.record(&map, Severity::Warning, "NoBucket", "the bucket is gone");
    }
    let events = plane.api::<Event>();
    let about = "involvedObject.name=a";
    let event = until_any(&events, about, |it| it.count == Some(3)).await;
    let name = event.metadata.name.unwrap();
    assert!(name.starts_with("a."), "{name}");
    assert_eq!(event.involved_object.uid, map.metadata.uid);
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    assert_eq!(event.reporting_component.as_deref(), Some("example.com/tester"));
    assert_eq!(recorder.dropped(), 0);
    tasks.stop(std::time::Duration::from_secs(5)).await.unwrap();
}
