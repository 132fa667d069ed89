//! Paths that are written so that they might be authorized as one object and served as another.

use std::sync::{Arc, Mutex};

use http::{Method, Uri};

use super::{grant, plane};
use crate::objects::{any_schema, config_map, thing, thing_crd};
use apiserver::auth::authentication::User;
use apiserver::auth::authorization::{Attributes, Authorization, Authorizer, Decision, Rules};
use machinery::{Value, json};
use testenv::media_type::JSON;
use testenv::{Client, TestEnv};

/// What is written into the secret that the attacks are after.
const SECRET_TEXT: &str = "Zm9yLWJvYi1vbmx5";

/// Paths of objects and collections, from which the attacks are made.
const TARGETS: [&str; 9] = [
    "/api/v1/namespaces/other/secrets/a",
    "/api/v1/namespaces/other/secrets",
    "/api/v1/secrets",
    "/api/v1/namespaces/other",
    "/api/v1/namespaces/other/configmaps/a",
    "/apis/apps/v1/namespaces/other/deployments/a/scale",
    "/apis/example.com/v1/namespaces/other/things/a",
    "/apis/example.com/v1/things",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin",
];

/// What takes the place of one slash.
const SLASHES: [&str; 21] = [
    "//",
    "///",
    "/./",
    "/../",
    "/x/../",
    "/%2e/",
    "/%2e%2e/",
    "/x/%2e%2e/",
    "/x/%2E%2E/",
    "/x/.%2e/",
    "%2f",
    "%2F",
    "/%2f",
    "%2f/",
    "%252f",
    "%5c",
    "/%5c../",
    "/;/",
    "/..;/",
    "/%00/",
    "/%20/",
];

/// What is appended to one segment.
const SUFFIXES: [&str; 9] = [";", ";x=1", "%3b", "%20", "%00", ".", "%2e", "%3f", "%23"];

/// What is appended to the whole path.
const ENDS: [&str; 14] = [
    "",
    "/",
    "//",
    "/.",
    "/..",
    "/../",
    "/%2e%2e",
    "/../b",
    "/%2e%2e%2fb",
    "/%252e%252e/b",
    ";",
    "?",
    "?x=/../b",
    "/../../../default/configmaps/a",
];

/// Encodes each byte of a text.
fn encoded(text: &str, prefix: &str) -> String {
    let bytes: Vec<String> = text.bytes().map(|byte| format!("{prefix}{byte:02x}")).collect();
    bytes.concat()
}

/// The ways to write a path.
fn variants(target: &str) -> Vec<String> {
    let mut all: Vec<String> = ENDS.iter().map(|end| format!("{target}{end}")).collect();
    for (at, _) in target.match_indices('/') {
        let (before, after) = (&target[..at], &target[at + 1..]);
        all.extend(SLASHES.iter().map(|slash| format!("{before}{slash}{after}")));
        let (segment, rest) = after.split_once('/').map_or((after, ""), |(it, rest)| (it, rest));
        let rest = if rest.is_empty() { String::new() } else { format!("/{rest}") };
        let changed = SUFFIXES.iter().map(|it| format!("{segment}{it}"));
        let changed = changed.chain([
            segment.to_uppercase(),
            encoded(segment, "%"),
            encoded(segment, "%25"),
            format!("{segment}/../{segment}"),
            format!("%00{segment}"),
            format!(".{segment}"),
        ]);
        all.extend(changed.map(|it| format!("{before}/{it}{rest}")));
    }
    // A request line is parsed as this type; other paths do not get as far as to be authorized.
    all.retain(|it| it.starts_with('/') && it.parse::<Uri>().is_ok());
    all
}

/// What was authorized: the resource, the namespace, the name and the subresource; None for a path
/// that is not that of a resource.
type Authorized = Option<[String; 4]>;

/// Allows every request and records what for.
#[derive(Debug, Default)]
struct Recorder(Mutex<Vec<Authorized>>);

impl Authorizer for Recorder {
    fn name(&self) -> &'static str {
        "recorder"
    }

    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> Authorization<'a> {
        let authorized = attributes
            .resource
            .map(|it| [it.resource, it.namespace, it.name, it.subresource].map(ToOwned::to_owned));
        self.0.lock().unwrap().push(authorized);
        Decision::allow().into()
    }

    fn rules(&self, _: &User, _: &str, _: &mut Rules) {}
}

/// Creates what is at the [`TARGETS`], and the same in the namespace `default`.
async fn create_targets(plane: &TestEnv) {
    plane.create("/api/v1/namespaces", &json!({"metadata": {"name": "other"}})).await;
    plane.install_crd(&thing_crd(&any_schema())).await;
    for namespace in ["default", "other"] {
        for name in ["a", "b"] {
            let core = format!("/api/v1/namespaces/{namespace}");
            let data = json!({"metadata": {"name": name}, "data": {"x": SECRET_TEXT}});
            plane.create(&format!("{core}/secrets"), &data).await;
            plane.create(&format!("{core}/configmaps"), &config_map(name, &json!({}))).await;
            let things = format!("/apis/example.com/v1/namespaces/{namespace}/things");
            plane.create(&things, &thing(name, &json!({}))).await;
            let template = json!({"metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}});
            let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
            let deployment = json!({"metadata": {"name": name}, "spec": spec});
            let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
            plane.create(&path, &deployment).await;
        }
    }
}

/// What a response is of, in the words of [`Authorized`], for each object in it. A document of
/// discovery is of no resource.
fn served(response: &Value) -> Vec<Authorized> {
    let of = |object: &Value, kind: &str| {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (mut namespace, name) = (text("namespace"), text("name"));
        if kind == "Namespace" {
            namespace.clone_from(&name);
        }
        let (resource, subresource) = match kind {
            "Scale" => ("deployments".to_owned(), "scale"),
            kind => (format!("{}s", kind.to_lowercase()), ""),
        };
        Some([resource, namespace, name, subresource.to_owned()])
    };
    match response["kind"].as_str().unwrap_or_default() {
        "APIResourceList" | "APIGroup" | "APIGroupList" | "APIVersions" | "" => vec![None],
        list if let Some(kind) = list.strip_suffix("List") => {
            let items = response["items"].as_array().unwrap();
            items.iter().map(|it| of(it, kind)).collect()
        }
        kind => vec![of(response, kind)],
    }
}

/// Whether an object is what was authorized, or a part of it.
fn is_part_of(object: &Authorized, authorized: &Authorized) -> bool {
    let (Some(object), Some(authorized)) = (object, authorized) else {
        return object == authorized;
    };
    let [resource, namespace, name, subresource] = authorized;
    let is_same = |all: &String, one: &String| all.is_empty() || all == one;
    resource == &object[0]
        && is_same(namespace, &object[1])
        && is_same(name, &object[2])
        && subresource == &object[3]
}

#[tokio::test]
async fn what_is_served_is_what_was_authorized_however_the_path_is_written() {
    let recorder = Arc::new(Recorder::default());
    let authorizer = Arc::clone(&recorder);
    let builder = TestEnv::builder().config(|config| config.authorizers.push(authorizer.into()));
    let plane = builder.start().await;
    create_targets(&plane).await;
    let alice = plane.as_user(User::authenticated("alice", "", vec![]));
    let mut count = 0;
    for path in TARGETS.iter().flat_map(|it| variants(it)) {
        recorder.0.lock().unwrap().clear();
        let response = alice.send(Method::GET, &path, JSON, "").await;
        let decisions = std::mem::take(&mut *recorder.0.lock().unwrap());
        if response.code != 200 {
            assert!(matches!(response.code, 400 | 404 | 405 | 406), "{path}: {}", response.code);
            continue;
        }
        let [authorized] = decisions.as_slice() else { panic!("{path}: {decisions:?}") };
        for object in served(&response.value()) {
            assert!(is_part_of(&object, authorized), "{path}: {object:?} for {authorized:?}");
            count += 1;
        }
    }
    // Those with encoded letters and slashes are served: else nothing was compared.
    assert!(count > 200, "{count}");
    plane.stop().await.unwrap();
}

/// A plane on which alice may read the config maps of the namespace `default`, and subresources that
/// do not exist, such as `..`.
async fn config_map_reader() -> (TestEnv, Client) {
    let (plane, alice) = plane().await;
    create_targets(&plane).await;
    let rights = [
        "get,list,watch configmaps",
        "get configmaps/..",
        "get configmaps/a",
        "get configmaps/secrets",
        "get configmaps/other",
    ];
    grant(&plane, "reader", &rights).await;
    (plane, alice)
}

#[tokio::test]
async fn no_way_to_write_a_path_reads_what_a_user_may_not_read() {
    let (plane, alice) = config_map_reader().await;
    assert_eq!(alice.get("/api/v1/namespaces/default/configmaps/a").await.0, 200);
    for path in TARGETS.iter().flat_map(|it| variants(it)) {
        let response = alice.send(Method::GET, &path, JSON, "").await;
        if response.code == 200 {
            // Discovery, which every user may read.
            assert_eq!(served(&response.value()), [None], "{path}: {}", response.value());
        }
        let body = String::from_utf8_lossy(&response.bytes);
        assert!(!body.contains(SECRET_TEXT), "{path}: {body}");
    }
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_path_that_begins_with_an_allowed_one_does_not_lead_out_of_it() {
    let (plane, alice) = config_map_reader().await;
    let allowed = "/api/v1/namespaces/default/configmaps";
    let ups = ["..", "%2e%2e", ".%2E", "%252e%252e", "..;", "..%00", "..%5c", "%c0%ae%c0%ae"];
    let slashes = ["/", "%2f", "%252f", "//", "%5c"];
    for up in ups {
        for slash in slashes {
            for (count, target) in [
                (1, "secrets/a"),
                (2, "other/secrets/a"),
                (3, "namespaces/other/secrets/a"),
                (4, "v1/secrets"),
                (5, "api/v1/secrets"),
            ] {
                let path = format!("{allowed}/{}{target}", format!("{up}{slash}").repeat(count));
                for path in [path.clone(), format!("{path}/"), path.replacen("maps/", "maps/a/", 1)]
                {
                    let response = alice.send(Method::GET, &path, JSON, "").await;
                    assert!(matches!(response.code, 400 | 403 | 404), "{path}: {}", response.code);
                }
            }
        }
    }
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn the_parameters_of_a_request_do_not_change_its_verb_or_object() {
    let (plane, alice) = config_map_reader().await;
    let map = "/api/v1/namespaces/default/configmaps/a";
    for query in ["namespace=other", "name=b", "resource=secrets", "_method=DELETE", "verb=delete"]
    {
        let (code, found) = alice.get(&format!("{map}?{query}")).await;
        assert_eq!((code, &found["metadata"]["name"]), (200, &json!("a")), "{query}");
        assert_eq!(found["metadata"]["namespace"], "default", "{query}");
    }
    let overriding = ["x-http-method-override", "x-http-method", "x-method-override"];
    for header in overriding {
        let (code, _) = alice.with_header(header, "DELETE").get(map).await;
        assert_eq!(code, 200, "{header}");
    }
    for header in ["x-original-url", "x-rewrite-url", "x-forwarded-uri", "x-forwarded-prefix"] {
        let secret = "/api/v1/namespaces/other/secrets/a";
        let (code, found) = alice.with_header(header, secret).get(map).await;
        assert_eq!((code, &found["kind"]), (200, &json!("ConfigMap")), "{header}");
        assert_eq!(alice.with_header(header, map).get(secret).await.0, 403, "{header}");
    }
    // The body of a create has another namespace than the path.
    let elsewhere = json!({"metadata": {"name": "c", "namespace": "other"}});
    grant(&plane, "creator", &["create configmaps"]).await;
    let (code, status) = alice.post("/api/v1/namespaces/default/configmaps", &elsewhere).await;
    assert_eq!((code, &status["reason"]), (400, &json!("BadRequest")), "{status}");
    plane.read(map).await;
    plane.stop().await.unwrap();
}
