//! The caches of a manager in the process of its server: they share the bytes of the server.

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::Api;
use kube_client::api::{Patch, PatchParams, PostParams};

use crate::plane::Plane;
use crate::world::{Running, until};
use informer::{InformerOptions, ObjectKey};
use machinery::json;
use runtime::{ApiService, Manager, ManagerOptions};

fn map(name: &str) -> ConfigMap {
    let object = json!({"metadata": {"name": name}, "data": {"a": "x".repeat(1000)}});
    serde_json::from_value(object).unwrap()
}

fn options(plane: &Plane) -> ManagerOptions {
    ManagerOptions {
        clock: plane.clock.clone(),
        entropy: plane.entropy.clone(),
        handles_signals: false,
        ..ManagerOptions::default()
    }
}

#[tokio::test]
async fn caches_share_the_bytes_of_the_server_also_after_their_own_writes() {
    let plane = Plane::start().await;
    plane.api::<ConfigMap>().create(&PostParams::default(), &map("before")).await.unwrap();
    let whole = InformerOptions { transforms: Vec::new(), ..InformerOptions::default() };
    let managers = [
        Manager::new(plane.client.clone(), options(&plane)),
        Manager::new(plane.client.clone(), ManagerOptions { informer: whole, ..options(&plane) }),
    ];
    let [stripped, whole] = managers.each_ref().map(Manager::informer::<ConfigMap>);
    let running = managers.each_ref().map(Running::start);
    for informer in [&stripped, &whole] {
        informer.has_synced().wait().await;
    }
    let maps: Api<ConfigMap> = Api::namespaced(managers[0].client(), "default");
    until("writes are allowed", async || {
        maps.create(&PostParams::default(), &map("own")).await.is_ok()
    })
    .await;
    let patch = |key: &str| Patch::Merge(json!({"data": {key: "1"}}));
    maps.patch("own", &PatchParams::default(), &patch("b")).await.unwrap();
    let own = ObjectKey::new("default", "own");
    // A managed client without another client below it.
    let direct = ApiService::new(plane.env.server().in_process_client(), "default");
    let direct: Api<ConfigMap> = Api::default_namespaced(managers[0].managed_client(direct));
    let patched = direct.patch("own", &PatchParams::default(), &patch("c")).await.unwrap();
    let at_once = stripped.indexer().get(&own).unwrap();
    assert_eq!(patched.metadata.resource_version.as_deref(), Some(at_once.resource_version()));
    assert!(at_once.shared_bytes().is_some(), "the response carries the stored object");
    plane.api::<ConfigMap>().create(&PostParams::default(), &map("after")).await.unwrap();
    let last = ObjectKey::new("default", "after");
    until("the watches have passed the writes", async || {
        [&stripped, &whole].iter().all(|it| it.indexer().get(&last).is_some())
    })
    .await;
    for name in ["before", "own", "after"] {
        let key = ObjectKey::new("default", name);
        let items = [&stripped, &whole].map(|it| it.indexer().get(&key).unwrap());
        let [left, right] = items.each_ref().map(|it| it.shared_bytes().expect("shared bytes"));
        assert_eq!(left.as_ptr(), right.as_ptr(), "{name}");
        let [stripped, whole] = items.map(|it| it.decode::<ConfigMap>().unwrap().metadata);
        assert!(stripped.managed_fields.is_none() && whole.managed_fields.is_some());
        assert_eq!(stripped.resource_version, whole.resource_version);
    }
    for running in running {
        running.stop().await;
    }
}
