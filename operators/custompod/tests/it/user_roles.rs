//! The rights of users with the cluster's roles `view`, `edit` and `admin`.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};

use crate::installation::{LIMIT, install, strict};
use cluster::{Cluster, ClusterConfig};
use machinery::json;
use runtime::prelude::*;

const READ: [&str; 3] = ["get", "list", "watch"];
const WRITE: [&str; 5] = ["create", "delete", "deletecollection", "patch", "update"];

/// A custom resource.
pub(crate) struct Kind {
    pub(crate) group: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) has_scale: bool,
}

/// Installs the documents, and checks that `view` reads the kinds, that `edit` and `admin` write them, too,
/// and that none of the three writes their status.
pub(crate) async fn check(documents: &[String], kinds: &[Kind]) {
    let mut config = ClusterConfig::default();
    strict(&mut config.server);
    let cluster = Cluster::start(config).await.unwrap();
    let admin = Client::new(cluster.server().in_process_client(), "default");
    install(&admin, documents).await;
    for role in ["view", "edit", "admin"] {
        bind(&admin, role).await;
    }
    for kind in kinds {
        check_kind(&admin, kind).await;
    }
    cluster.stop().await.unwrap();
}

/// Gives the user `role` the cluster's role of that name, in the namespace `default`.
async fn bind(admin: &Client, role: &str) {
    let api_group = "rbac.authorization.k8s.io";
    let binding = json!({
        "apiVersion": format!("{api_group}/v1"), "kind": "RoleBinding",
        "metadata": {"name": role, "namespace": "default"},
        "roleRef": {"apiGroup": api_group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": api_group, "kind": "User", "name": role}],
    });
    install(admin, &[binding.to_string()]).await;
}

async fn check_kind(admin: &Client, kind: &Kind) {
    let scale = if kind.has_scale { vec!["", "scale"] } else { vec![""] };
    for role in ["view", "edit", "admin"] {
        for subresource in &scale {
            let verbs: Vec<_> = match role {
                "view" => READ.into(),
                _ => [READ.as_slice(), &WRITE].concat(),
            };
            for verb in verbs {
                wait_until_allowed(admin, role, verb, kind, subresource).await;
            }
        }
        for verb in WRITE {
            assert!(!is_allowed(admin, role, verb, kind, "status").await, "{role} {verb}");
            let may_write = is_allowed(admin, role, verb, kind, "").await;
            assert_eq!(may_write, role != "view", "{role} {verb}");
        }
    }
}

/// The roles are aggregated by a controller.
async fn wait_until_allowed(
    admin: &Client,
    user: &str,
    verb: &str,
    kind: &Kind,
    subresource: &str,
) {
    let polling = async {
        while !is_allowed(admin, user, verb, kind, subresource).await {
            tokio::task::yield_now().await;
        }
    };
    let was_allowed = tokio::time::timeout(LIMIT, polling).await.is_ok();
    assert!(was_allowed, "{user} may {verb} {} {subresource}", kind.plural);
}

async fn is_allowed(
    admin: &Client,
    user: &str,
    verb: &str,
    kind: &Kind,
    subresource: &str,
) -> bool {
    let attributes = ResourceAttributes {
        namespace: Some("default".to_owned()),
        verb: Some(verb.to_owned()),
        group: Some(kind.group.to_owned()),
        resource: Some(kind.plural.to_owned()),
        subresource: Some(subresource.to_owned()),
        ..ResourceAttributes::default()
    };
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user.to_owned()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let reviews = Api::<SubjectAccessReview>::all(admin.clone());
    let review = reviews.create(&PostParams::default(), &review).await.unwrap();
    review.status.unwrap().allowed
}
