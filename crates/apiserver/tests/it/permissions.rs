//! The permissions that a request needs besides that for its own verb, and the verbs of requests.

use std::sync::Arc;

use apiserver::auth::authentication::User;
use apiserver::auth::authorization::{Attributes, Authorization, Authorizer, Decision, Rules};
use machinery::{Value, json};
use testenv::{Client, TestEnv};

use crate::objects::{MAPS, map};

/// The rights of all users: `get pods`, or `get pods a` for one name.
#[derive(Debug)]
struct Rights(&'static [&'static str]);

impl Authorizer for Rights {
    fn name(&self) -> &'static str {
        "rights"
    }

    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> Authorization<'a> {
        let verb = attributes.verb;
        let is_allowed = attributes.resource.is_some_and(|it| {
            let separator = if it.subresource.is_empty() { "" } else { "/" };
            let any_name = format!("{verb} {}{separator}{}", it.resource, it.subresource);
            let one_name = format!("{any_name} {}", it.name);
            self.0.contains(&any_name.as_str()) || self.0.contains(&one_name.as_str())
        });
        if is_allowed { Decision::allow() } else { Decision::no_opinion("not listed") }.into()
    }

    fn rules(&self, _: &User, _: &str, _: &mut Rules) {}
}

/// A plane, and alice, who has these rights.
async fn plane(rights: &'static [&'static str]) -> (TestEnv, Client) {
    let authorizers: Vec<Arc<dyn Authorizer>> = vec![Arc::new(Rights(rights))];
    let builder = TestEnv::builder().config(|config| {
        config.authorizers = authorizers;
        config.enabled_plugins = vec!["OwnerReferencesPermissionEnforcement".to_owned()];
    });
    let plane = builder.start().await;
    let alice = plane.as_user(User::authenticated("alice", "", vec![]));
    (plane, alice)
}

/// The code and the message of a response.
fn refusal((code, status): (u16, Value)) -> (u16, String) {
    (code, status["message"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_refused_owner_reference_has_the_reason_of_the_authorizer() {
    let (plane, alice) = plane(&["create configmaps"]).await;
    let owner = plane.create(MAPS, &map("owner", &json!({}))).await;
    let mut owned = map("owned", &json!({}));
    owned["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap",
        "name": "owner", "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true}]);
    let message = r#"configmaps "owned" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: rights: not listed, <nil>"#;
    assert_eq!(refusal(alice.post(MAPS, &owned).await), (403, message.to_owned()));
}
