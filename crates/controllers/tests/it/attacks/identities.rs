//! Attempts to get the identity or the rights of another by way of a controller: tokens of accounts,
//! certificates, aggregated roles.

use k8s_openapi::ByteString;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, DnValue, IsCa, KeyPair,
    SanType, string::BmpString,
};
use x509_parser::pem::parse_x509_pem;

use super::{OWN, own, plane};
use crate::plane::Plane;
use machinery::{Value, json};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const CLUSTER_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";

fn token_secret(name: &str, account: &str) -> Value {
    json!({"metadata": {"name": name,
        "annotations": {"kubernetes.io/service-account.name": account}},
        "type": "kubernetes.io/service-account-token"})
}

fn token_of(secret: &Value) -> String {
    let bytes: ByteString = serde_json::from_value(secret["data"]["token"].clone()).unwrap();
    String::from_utf8(bytes.0).unwrap()
}

fn has_token(_: u16, secret: &Value) -> bool {
    secret["data"]["token"].is_string()
}

#[tokio::test]
async fn a_secret_gets_no_token_of_an_account_in_another_namespace() {
    let (plane, mallory) = plane(&["serviceaccount-token"]).await;
    let robot = plane.create(ACCOUNTS, &json!({"metadata": {"name": "robot"}})).await;
    let own_secrets = own("api/v1", "secrets");
    for (index, account) in [
        "robot",
        "default/robot",
        "../../default/serviceaccounts/robot",
        "robot/../../../default/serviceaccounts/robot",
        "system:serviceaccount:default:robot",
        "robot?x=",
    ]
    .into_iter()
    .enumerate()
    {
        let mut secret = token_secret(&format!("s{index}"), account);
        secret["metadata"]["annotations"]["kubernetes.io/service-account.uid"] =
            robot["metadata"]["uid"].clone();
        mallory.create(&own_secrets, &secret).await;
        let path = format!("{own_secrets}/s{index}");
        plane.until(&path, |code, it| code == 404 || has_token(code, it)).await;
        assert_eq!(plane.get(&path).await.0, 404, "{account}");
    }
    // As in Kubernetes, who may create secrets gets the tokens of the accounts of the namespace.
    mallory
        .create(&own("api/v1", "serviceaccounts"), &json!({"metadata": {"name": "robot"}}))
        .await;
    mallory.create(&own_secrets, &token_secret("own", "robot")).await;
    let secret = plane.until(&format!("{own_secrets}/own"), has_token).await;
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let review = plane.bearer(&token_of(&secret)).create(review, &json!({})).await;
    let user = format!("system:serviceaccount:{OWN}:robot");
    assert_eq!(review["status"]["userInfo"]["username"], user);
    plane.stop().await;
}

#[tokio::test]
async fn the_tokens_of_a_deleted_account_are_not_those_of_a_new_one_of_its_name() {
    let (plane, _) = plane(&["serviceaccount-token"]).await;
    let account = json!({"metadata": {"name": "robot"}});
    plane.create(ACCOUNTS, &account).await;
    plane.create(SECRETS, &token_secret("t", "robot")).await;
    let secret = plane.until(&format!("{SECRETS}/t"), has_token).await;
    let path = format!("{ACCOUNTS}/robot/token");
    let issued = plane.create(&path, &json!({"spec": {}})).await;
    let issued = issued["status"]["token"].as_str().unwrap().to_owned();
    let tokens = [token_of(&secret), issued];
    for token in &tokens {
        assert_ne!(plane.bearer(token).get("/api").await.0, 401);
    }
    plane.delete(&format!("{ACCOUNTS}/robot")).await;
    plane.create(ACCOUNTS, &account).await;
    for token in &tokens {
        plane.bearer(token).until("/api", |code, _| code == 401).await;
    }
    // A secret with the old token is that of the old account, whatever its annotation says.
    plane.until(&format!("{SECRETS}/t"), |code, _| code == 404).await;
    let mut kept = token_secret("t", "robot");
    kept["data"] = json!({"token": secret["data"]["token"]});
    plane.create(SECRETS, &kept).await;
    let is_completed = |_: u16, it: &Value| it["data"]["namespace"].is_string();
    plane.until(&format!("{SECRETS}/t"), is_completed).await;
    for token in &tokens {
        assert_eq!(plane.bearer(token).get("/api").await.0, 401);
    }
    plane.stop().await;
}

#[tokio::test]
async fn an_aggregated_role_gets_only_rights_that_the_writer_of_the_label_has() {
    let (plane, mallory) = plane(&[]).await;
    let roles = json!({"metadata": {"name": "role-writer"}, "rules": [{
        "verbs": ["get", "create", "update", "patch"], "resources": ["clusterroles"],
        "apiGroups": ["rbac.authorization.k8s.io"]}]});
    plane.create(ROLES, &roles).await;
    let binding = json!({"metadata": {"name": "role-writer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": "role-writer"}, "subjects": [{"kind": "User", "name": "mallory"}]});
    plane.create(CLUSTER_BINDINGS, &binding).await;
    let before = plane.read(&format!("{ROLES}/admin")).await["rules"].clone();

    let label = json!({"rbac.authorization.k8s.io/aggregate-to-admin": "true"});
    let nodes = json!([{"verbs": ["*"], "resources": ["nodes"], "apiGroups": [""]}]);
    let strong = json!({"metadata": {"name": "strong", "labels": label}, "rules": nodes});
    assert_eq!(mallory.post(ROLES, &strong).await.0, 403);
    let merge = "application/merge-patch+json";
    let labeled = json!({"metadata": {"labels": label}});
    for role in ["cluster-admin", "system:node", "system:kube-controller-manager"] {
        assert_eq!(mallory.patch(&format!("{ROLES}/{role}"), merge, &labeled).await.0, 403);
    }
    let aggregating = json!({"metadata": {"name": "all", "labels": label},
        "aggregationRule": {"clusterRoleSelectors": [{}]}});
    assert_eq!(mallory.post(ROLES, &aggregating).await.0, 403);
    let rules = json!({"rules": nodes});
    assert_eq!(mallory.patch(&format!("{ROLES}/admin"), merge, &rules).await.0, 403);

    // A role without rights may be labeled; the controller has then seen all roles.
    let harmless = json!([{"verbs": ["get"], "resources": ["clusterroles"],
        "apiGroups": ["rbac.authorization.k8s.io"]}]);
    let weak = json!({"metadata": {"name": "weak", "labels": label}, "rules": harmless});
    mallory.create(ROLES, &weak).await;
    let has_weak = |_: u16, it: &Value| it["rules"].as_array().unwrap().contains(&harmless[0]);
    let after = plane.until(&format!("{ROLES}/admin"), has_weak).await;
    let (before, after) = (before.as_array().unwrap(), after["rules"].as_array().unwrap());
    assert!(after.iter().all(|it| before.contains(it) || *it == harmless[0]), "{after:?}");
    plane.stop().await;
}

/// A PKCS#10 request with this common name and organization.
fn params(user: &str, group: DnValue) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, group);
    params.distinguished_name.push(DnType::CommonName, user);
    params
}

fn signing_request(name: &str, signer: &str, params: &CertificateParams, usages: &[&str]) -> Value {
    let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    json!({"metadata": {"name": name}, "spec": {"request": ByteString(pem.into_bytes()),
        "signerName": signer, "usages": usages}})
}

async fn approve(plane: &Plane, created: &Value) {
    let mut approved = created.clone();
    approved["status"]["conditions"] =
        json!([{"type": "Approved", "status": "True", "reason": "Careless"}]);
    let name = created["metadata"]["name"].as_str().unwrap();
    let (code, answer) = plane.put(&format!("{REQUESTS}/{name}/approval"), &approved).await;
    assert_eq!(code, 200, "{answer}");
}

/// A plane whose certificate signing requests are handled, on which mallory may create them.
async fn signing_plane() -> (Plane, testenv::Client) {
    let (plane, mallory) = plane(&["csrapproving", "csrsigning"]).await;
    let role = json!({"metadata": {"name": "requester"}, "rules": [{"verbs": ["create", "get"],
        "apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"]}]});
    plane.create(ROLES, &role).await;
    let binding = json!({"metadata": {"name": "requester"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": "requester"}, "subjects": [{"kind": "User", "name": "mallory"}]});
    plane.create(CLUSTER_BINDINGS, &binding).await;
    (plane, mallory)
}

#[tokio::test]
async fn no_certificate_is_requested_for_the_masters_in_any_encoding() {
    let (plane, mallory) = signing_plane().await;
    let masters = "system:masters";
    let wide = DnValue::BmpString(BmpString::try_from(masters).unwrap());
    for group in [DnValue::Utf8String(masters.into()), wide] {
        let request = signing_request("r", CLIENT, &params("mallory", group), &["client auth"]);
        let (code, answer) = mallory.post(REQUESTS, &request).await;
        assert_eq!(code, 403, "{answer}");
        assert_eq!(plane.post(REQUESTS, &request).await.0, 403, "nor by a master");
    }
    plane.stop().await;
}

#[tokio::test]
async fn a_certificate_of_a_node_is_approved_only_for_who_may_have_it() {
    let (plane, mallory) = signing_plane().await;
    let usages = ["client auth", "digital signature"];
    let nodes = || DnValue::Utf8String("system:nodes".into());
    let of_node = params("system:node:victim", nodes());
    let request = |name: &str, params| signing_request(name, KUBELET_CLIENT, params, &usages);
    mallory.create(REQUESTS, &request("mallory", &of_node)).await;
    // A node asks for its own name only; the roles of a new plane let nodes renew their certificates.
    let groups = vec!["system:nodes".to_owned()];
    let user = apiserver::auth::authentication::User::authenticated("system:node:own", "", groups);
    let node = plane.as_user(user);
    let role = json!({"metadata": {"name": "self"}, "rules": [{"verbs": ["create"],
        "apiGroups": ["certificates.k8s.io"], "resources": [
            "certificatesigningrequests", "certificatesigningrequests/selfnodeclient"]}]});
    plane.create(ROLES, &role).await;
    let binding = json!({"metadata": {"name": "self"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "self"},
        "subjects": [{"kind": "User", "name": "system:node:own"}]});
    plane.create(CLUSTER_BINDINGS, &binding).await;
    node.create(REQUESTS, &request("other", &of_node)).await;
    node.create(REQUESTS, &request("own", &params("system:node:own", nodes()))).await;
    let is_issued = |_: u16, it: &Value| it["status"]["certificate"].is_string();
    plane.until(&format!("{REQUESTS}/own"), is_issued).await;
    for name in ["mallory", "other"] {
        let status = &plane.read(&format!("{REQUESTS}/{name}")).await["status"];
        assert_eq!(*status, json!({}), "{name}");
    }
    plane.stop().await;
}

#[tokio::test]
async fn a_signer_issues_nothing_beyond_its_purpose_even_if_somebody_approves_it() {
    let (plane, mallory) = signing_plane().await;
    let nodes = || DnValue::Utf8String("system:nodes".into());
    let with_name = |name: SanType| {
        let mut params = params("system:node:n", nodes());
        params.subject_alt_names = vec![name];
        params
    };
    let dns = |name: &str| SanType::DnsName(name.try_into().unwrap());
    let client = ["client auth", "digital signature"];
    let serving = ["server auth", "digital signature"];
    let masters = params("system:node:n", DnValue::Utf8String("system:masters".into()));
    let uri = SanType::URI("spiffe://a/b".try_into().unwrap());
    for (name, signer, params, usages) in [
        ("node-with-dns", KUBELET_CLIENT, with_name(dns("kubernetes")), &client[..]),
        ("node-of-masters", KUBELET_CLIENT, masters, &client),
        ("no-node", KUBELET_CLIENT, params("admin", nodes()), &client),
        (
            "node-as-server",
            KUBELET_CLIENT,
            params("system:node:n", nodes()),
            &["client auth", "digital signature", "server auth"],
        ),
        (
            "node-as-authority",
            KUBELET_CLIENT,
            params("system:node:n", nodes()),
            &["client auth", "digital signature", "cert sign"],
        ),
        (
            "client-as-authority",
            CLIENT,
            params("a", DnValue::Utf8String("b".into())),
            &["client auth", "cert sign"],
        ),
        ("server-with-uri", KUBELET_SERVING, with_name(uri), &serving),
        (
            "server-as-client",
            KUBELET_SERVING,
            with_name(dns("n")),
            &["server auth", "client auth", "digital signature"],
        ),
        ("server-of-nobody", KUBELET_SERVING, params("system:node:n", nodes()), &serving),
    ] {
        let created =
            mallory.create(REQUESTS, &signing_request(name, signer, &params, usages)).await;
        approve(&plane, &created).await;
        let has_failed = |_: u16, it: &Value| it["status"]["conditions"][1]["type"] == "Failed";
        let failed = plane.until(&format!("{REQUESTS}/{name}"), has_failed).await;
        assert_eq!(failed["status"]["certificate"], Value::Null, "{name}");
    }
    // What a request says about itself besides names is not copied.
    let mut authority = params("mallory", DnValue::Utf8String("dev".into()));
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let request = signing_request("authority", CLIENT, &authority, &["client auth"]);
    let created = mallory.create(REQUESTS, &request).await;
    approve(&plane, &created).await;
    let is_issued = |_: u16, it: &Value| it["status"]["certificate"].is_string();
    let issued = plane.until(&format!("{REQUESTS}/authority"), is_issued).await;
    let pem: ByteString = serde_json::from_value(issued["status"]["certificate"].clone()).unwrap();
    let (_, pem) = parse_x509_pem(&pem.0).unwrap();
    let certificate = pem.parse_x509().unwrap();
    assert!(!certificate.is_ca());
    assert!(certificate.key_usage().unwrap().is_none_or(|it| !it.value.key_cert_sign()));
    plane.stop().await;
}
