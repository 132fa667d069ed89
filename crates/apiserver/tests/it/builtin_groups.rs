//! CRDs and `APIService`s for groups that this server serves itself, and groups that it serves if they
//! are turned on.

use crate::https::{Https, json_response};
use crate::objects::{CRDS, THINGS, any_schema, thing, thing_crd};
use machinery::{Value, json};
use testenv::TestEnv;

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";

/// A CRD in a built-in group.
fn crd_in_group(group: &str, plural: &str, kind: &str, version: &str) -> Value {
    let mut crd = thing_crd(&any_schema());
    crd["metadata"] = json!({"name": format!("{plural}.{group}"),
        "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/1"}});
    crd["spec"]["group"] = group.into();
    crd["spec"]["names"] = json!({"plural": plural, "kind": kind});
    crd["spec"]["versions"][0]["name"] = version.into();
    crd
}

async fn until_established(plane: &TestEnv, crd: &Value) -> String {
    let path = format!("{CRDS}/{}", crd["metadata"]["name"].as_str().unwrap());
    let is_established = |_, it: &Value| {
        let conditions = it["status"]["conditions"].as_array();
        conditions.is_some_and(|it| {
            it.iter().any(|it| it["type"] == "Established" && it["status"] == "True")
        })
    };
    plane.until(&path, is_established).await;
    path
}

fn policy(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}})
}

#[tokio::test]
async fn a_crd_does_not_shadow_a_built_in_kind() {
    let plane = TestEnv::start().await;
    plane.create(POLICIES, &policy("before")).await;
    let crd = crd_in_group("networking.k8s.io", "networkpolicies", "NetworkPolicy", "v1");
    plane.create(CRDS, &crd).await;
    let path = until_established(&plane, &crd).await;
    assert_eq!(plane.read(POLICIES).await["items"][0]["metadata"]["name"], "before");
    let (code, _) = plane.post(POLICIES, &json!({"metadata": {"name": "x"}, "spec": 1})).await;
    assert_eq!(code, 400, "the object is validated as the built-in kind");
    plane.create(POLICIES, &policy("after")).await;
    assert_eq!(plane.delete(&path).await.0, 200);
    plane.until(&path, |code, _| code == 404).await;
    assert_eq!(plane.read(POLICIES).await["items"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn resources_of_a_crd_in_a_built_in_group_are_not_served() {
    let plane = TestEnv::start().await;
    for (plural, kind, version) in [("foos", "Foo", "v1"), ("bars", "Bar", "v1alpha9")] {
        let crd = crd_in_group("networking.k8s.io", plural, kind, version);
        plane.create(CRDS, &crd).await;
        until_established(&plane, &crd).await;
        let (code, status) =
            plane.get(&format!("/apis/networking.k8s.io/{version}/{plural}")).await;
        assert_eq!((code, &status["reason"]), (404, &json!("NotFound")), "{status}");
    }
    let resources = plane.read("/apis/networking.k8s.io/v1").await;
    let resources = resources["resources"].as_array().unwrap();
    assert!(resources.iter().all(|it| it["name"] != "foos"));
}

#[tokio::test]
async fn versions_of_a_crd_in_a_built_in_group_are_listed_and_not_served() {
    let plane = TestEnv::start().await;
    let mut crd = crd_in_group("networking.k8s.io", "foos", "Foo", "v1");
    let version = crd["spec"]["versions"][0].clone();
    for name in ["v1beta7", "v2"] {
        let mut version = version.clone();
        (version["name"], version["storage"]) = (name.into(), false.into());
        crd["spec"]["versions"].as_array_mut().unwrap().push(version);
    }
    plane.create(CRDS, &crd).await;
    let path = until_established(&plane, &crd).await;
    let listed = |group: &Value| -> Vec<String> {
        let versions = group["versions"].as_array().unwrap().iter();
        versions.map(|it| it["version"].as_str().unwrap().to_owned()).collect()
    };
    let group = plane.read("/apis/networking.k8s.io").await;
    assert_eq!(listed(&group), ["v2", "v1beta7", "v1"]);
    assert_eq!(group["preferredVersion"]["version"], "v2");
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let aggregated = plane.get_as("/apis", accept).await.value();
    let groups = aggregated["items"].as_array().unwrap().iter();
    let group = groups.clone().find(|it| it["metadata"]["name"] == "networking.k8s.io").unwrap();
    assert_eq!(listed(group), ["v2", "v1beta7", "v1"]);
    let resources = group["versions"][0]["resources"].as_array().unwrap();
    assert_eq!(resources.len(), 1);
    assert_eq!(
        (&resources[0]["resource"], &resources[0]["responseKind"]),
        (&json!("foos"), &json!({"group": "networking.k8s.io", "version": "v2", "kind": "Foo"}))
    );

    for path in ["v2", "v2/foos", "v1beta7/namespaces/default/foos/a", "v1/foos"] {
        let (code, status) = plane.get(&format!("/apis/networking.k8s.io/{path}")).await;
        assert_eq!((code, &status["reason"]), (404, &json!("NotFound")), "{path}: {status}");
    }
    let service = format!("{SERVICES}/v2.networking.k8s.io");
    let api_service = plane.until(&service, |code, _| code == 200).await;
    assert_eq!(
        api_service["spec"],
        json!({"group": "networking.k8s.io", "version": "v2", "groupPriorityMinimum": 1000,
            "versionPriority": 100})
    );
    let own = plane.read(&format!("{SERVICES}/v1.networking.k8s.io")).await;
    assert_eq!(own["spec"]["groupPriorityMinimum"], 17_200);
    assert_eq!(plane.delete(&path).await.0, 200);
    plane.until(&service, |code, _| code == 404).await;
    assert_eq!(listed(&plane.read("/apis/networking.k8s.io").await), ["v1"]);
}

#[tokio::test]
async fn a_crd_for_crds_has_no_effect_and_can_be_deleted_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let plane = TestEnv::builder().data_dir(directory.path()).start().await;
    let crd = crd_in_group(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        "v1",
    );
    plane.create(CRDS, &crd).await;
    let path = until_established(&plane, &crd).await;
    plane.install_crd(&thing_crd(&any_schema())).await;
    plane.create(THINGS, &thing("a", &json!({}))).await;
    plane.stop().await.unwrap();

    let plane = TestEnv::builder().data_dir(directory.path()).start().await;
    assert_eq!(plane.read(CRDS).await["items"].as_array().map(Vec::len), Some(2));
    assert_eq!(plane.delete(&path).await.0, 200);
    plane.until(&path, |code, _| code == 404).await;
    assert_eq!(plane.read(&format!("{THINGS}/a")).await["kind"], "Thing");
    plane.stop().await.unwrap();
}

/// Starts a server whose responses are `{"server":"other"}`, creates a service for it, and returns the
/// server with a part of the `spec` of an `APIService`.
async fn other_server(plane: &TestEnv) -> (Https, Value) {
    let other = |_| std::future::ready(json_response(200, &json!({"server": "other"})));
    let server = Https::start("other.default.svc", other).await;
    plane.create("/api/v1/namespaces/default/services", &Https::service("other")).await;
    let spec =
        json!({"caBundle": server.ca_bundle(), "service": server.service_reference("other")});
    (server, spec)
}

fn is_available(_: u16, service: &Value) -> bool {
    service["status"]["conditions"][0]["status"] == "True"
        && service["status"]["conditions"][0]["reason"] == "Passed"
}

#[tokio::test]
async fn api_services_are_always_served_locally() {
    let plane = TestEnv::start().await;
    let (_server, mut spec) = other_server(&plane).await;
    for version in ["v1", "v9"] {
        let name = format!("{version}.apiregistration.k8s.io");
        spec["group"] = "apiregistration.k8s.io".into();
        spec["version"] = version.into();
        spec["groupPriorityMinimum"] = 1000.into();
        spec["versionPriority"] = 10.into();
        plane.create(SERVICES, &json!({"metadata": {"name": name}, "spec": spec})).await;
        let path = format!("{SERVICES}/{name}");
        assert_eq!(plane.read(&path).await["spec"]["service"]["name"], "other");
        assert_eq!(plane.delete(&path).await.0, 200);
        assert_eq!(plane.get(&path).await.0, 404);
    }
}

#[tokio::test]
async fn a_redirected_built_in_version_is_served_locally_again_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let plane = TestEnv::builder().data_dir(directory.path()).start().await;
    let (_server, spec) = other_server(&plane).await;
    for name in ["v1.networking.k8s.io", "v1.apiextensions.k8s.io", "v1."] {
        plane.merge(&format!("{SERVICES}/{name}"), &json!({"spec": spec})).await;
        plane.until(&format!("{SERVICES}/{name}"), is_available).await;
    }
    assert_eq!(plane.read(POLICIES).await, json!({"server": "other"}));
    assert_eq!(plane.read(CRDS).await, json!({"server": "other"}));
    plane.stop().await.unwrap();

    let plane = TestEnv::builder().data_dir(directory.path()).start().await;
    let policies = plane.read(POLICIES).await;
    assert_eq!(policies["kind"], "NetworkPolicyList");
    let local = plane.read(&format!("{SERVICES}/v1.networking.k8s.io")).await;
    assert_eq!(local["spec"].get("service"), None);
    plane.install_crd(&thing_crd(&any_schema())).await;
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_built_in_version_is_served_without_its_api_service() {
    let directory = tempfile::tempdir().unwrap();
    let plane = TestEnv::builder().data_dir(directory.path()).start().await;
    let path = format!("{SERVICES}/v1.networking.k8s.io");
    assert_eq!(plane.delete(&path).await.0, 200);
    plane.create(POLICIES, &policy("a")).await;
    plane.install_crd(&thing_crd(&any_schema())).await;
    plane.until(&format!("{SERVICES}/v1.example.com"), |code, _| code == 200).await;
    assert_eq!(
        plane.get(&path).await.0,
        404,
        "a missing APIService is only created when the server starts"
    );
    let apps = plane.read(&format!("{SERVICES}/v1.apps")).await;
    plane.stop().await.unwrap();

    let plane = TestEnv::builder().data_dir(directory.path()).start().await;
    assert_eq!(plane.get(&path).await.0, 200);
    assert_eq!(plane.read(&format!("{SERVICES}/v1.apps")).await, apps, "it was not written again");
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn the_api_service_of_a_crd_is_repaired() {
    let plane = TestEnv::start().await;
    plane.install_crd(&thing_crd(&any_schema())).await;
    let path = format!("{SERVICES}/v1.example.com");
    plane.until(&path, |code, _| code == 200).await;
    plane.merge(&path, &json!({"spec": {"versionPriority": 7}})).await;
    plane.until(&path, |_, it| it["spec"]["versionPriority"] == 100).await;
    assert_eq!(plane.delete(&path).await.0, 200);
    plane.until(&path, |code, _| code == 200).await;
}

#[tokio::test]
async fn a_beta_api_is_served_if_it_is_turned_on() {
    const GROUP: &str = "/apis/storagemigration.k8s.io";
    let directory = tempfile::tempdir().unwrap();
    let plane = async |items: &[&str]| {
        let items: Vec<String> = items.iter().map(|it| (*it).to_owned()).collect();
        let builder = TestEnv::builder().data_dir(directory.path());
        builder.config(|config| config.runtime_config = items).start().await
    };
    let path = format!("{GROUP}/v1beta1/storageversionmigrations");
    let is_shown = async |plane: &TestEnv| {
        let openapi = plane.read("/openapi/v3").await;
        let metrics = plane.get_as("/metrics", "text/plain").await;
        let shown = [
            plane.get(GROUP).await.0 == 200,
            plane.get(&path).await.0 == 200,
            openapi["paths"].get(format!("{}/v1beta1", &GROUP[1..])).is_some(),
            plane.read("/apis").await.to_string().contains("storagemigration"),
            plane.get(&format!("{SERVICES}/v1beta1.storagemigration.k8s.io")).await.0 == 200,
            metrics
                .text()
                .contains(r#"resource="storageversionmigrations.storagemigration.k8s.io""#),
        ];
        assert!(shown.iter().all(|it| *it == shown[0]), "{shown:?}");
        shown[0]
    };
    let on = plane(&["storagemigration.k8s.io/v1beta1=true"]).await;
    assert!(is_shown(&on).await);
    let spec = json!({"resource": {"resource": "secrets"}});
    on.create(&path, &json!({"metadata": {"name": "kept"}, "spec": spec})).await;
    on.stop().await.unwrap();
    let off = plane(&[]).await;
    assert!(!is_shown(&off).await);
    off.stop().await.unwrap();
    let on = plane(&["api/beta=true"]).await;
    let kept = on.read(&format!("{path}/kept")).await;
    assert_eq!(kept["spec"]["resource"]["resource"], "secrets");
}
