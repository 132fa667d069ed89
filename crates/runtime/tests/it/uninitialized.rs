//! Caches of objects with pending initializers, for the controllers of initializers.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;

use machinery::json;
use runtime::informer::Selection;
use runtime::{BackgroundManager, ManagerOptions};
use testenv::TestEnv;

const CONFIGURATIONS: &str =
    "/apis/admissionregistration.k8s.io/v1alpha1/initializerconfigurations";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn only_a_selection_that_includes_them_caches_uninitialized_objects() {
    let env = TestEnv::start().await;
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]);
    let initializer = json!({"name": "maps.initializer.example.com", "rules": rules});
    let configuration = json!({"metadata": {"name": "maps"}, "initializers": [initializer]});
    env.create(CONFIGURATIONS, &configuration).await;
    let map = json!({"metadata": {"name": "a"}});
    env.create(&format!("{MAPS}?includeUninitialized=true"), &map).await;

    let options = ManagerOptions { clock: env.clock().clone(), ..ManagerOptions::default() };
    let operator = BackgroundManager::start("operator", env.kube(), options, |_| {});
    let manager = operator.manager();
    let all = Selection {
        namespace: Some("default".to_owned()),
        includes_uninitialized: true,
        ..Selection::default()
    };
    let initialized = Selection { includes_uninitialized: false, ..all.clone() };
    let all = manager.lister_selecting::<ConfigMap>(&all);
    let initialized = manager.lister_selecting::<ConfigMap>(&initialized);
    let limit = Duration::from_secs(30);
    manager.settled(limit).await.unwrap();
    assert!(all.get("default", "a").unwrap().is_some());
    assert!(initialized.get("default", "a").unwrap().is_none());

    env.merge(&format!("{MAPS}/a"), &json!({"metadata": {"initializers": null}})).await;
    manager.settled(limit).await.unwrap();
    assert!(initialized.get("default", "a").unwrap().is_some());
    operator.stop().await.unwrap();
}
