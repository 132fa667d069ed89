//! The rules that apply in every configuration: `system:masters` may do everything, all users may
//! read health and version, and authenticated users may read discovery and create self reviews.

use super::masters;
use super::{Attributes, Authorization, Authorizer, Decision, Rules, matches_path};
use crate::auth::authentication::{AUTHENTICATED, User};
use crate::request::Verb;
use machinery::json;

/// See the [module documentation](self).
#[derive(Debug)]
pub struct DefaultRules;

impl Authorizer for DefaultRules {
    fn name(&self) -> &'static str {
        "default"
    }

    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> Authorization<'a> {
        let is_allowed = masters::contains(attributes.user)
            || (attributes.verb == Verb::Get.as_str() && is_public(attributes))
            || (attributes.verb == Verb::Create.as_str() && is_self_review(attributes));
        if is_allowed { Decision::allow().into() } else { Decision::no_opinion("").into() }
    }

    fn rules(&self, user: &User, _: &str, rules: &mut Rules) {
        if masters::contains(user) {
            rules.add_all();
        }
        let Rules { resources, paths, .. } = rules;
        if user.is_in(AUTHENTICATED) {
            resources.extend(SELF_REVIEWS.iter().map(
                |(group, names)| json!({"verbs": ["create"], "apiGroups": [group], "resources": names}),
            ));
            let mut all: Vec<&str> = DISCOVERY_PATHS.iter().chain(&PUBLIC_PATHS).copied().collect();
            all.sort_unstable();
            paths.push(json!({"verbs": ["get"], "nonResourceURLs": all}));
        }
        paths.push(json!({"verbs": ["get"], "nonResourceURLs": PUBLIC_PATHS}));
    }
}

/// The paths that all users may read. A single health check, such as `/healthz/etcd`, is not among
/// them. Upstream: bootstrappolicy, `system:public-info-viewer`.
const PUBLIC_PATHS: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];

/// The paths that authenticated users may read. Upstream: bootstrappolicy, `system:discovery`.
const DISCOVERY_PATHS: [&str; 6] = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"];

/// The reviews that authenticated users may create.
const SELF_REVIEWS: [(&str, &[&str]); 2] = [
    ("authentication.k8s.io", &["selfsubjectreviews"]),
    ("authorization.k8s.io", &["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
];

fn is_public(attributes: &Attributes<'_>) -> bool {
    let matches_any =
        |patterns: &[&str]| patterns.iter().any(|it| matches_path(it, attributes.path));
    attributes.resource.is_none()
        && (matches_any(&PUBLIC_PATHS)
            || (attributes.user.is_in(AUTHENTICATED) && matches_any(&DISCOVERY_PATHS)))
}

/// Authenticated users may create reviews about themselves.
fn is_self_review(attributes: &Attributes<'_>) -> bool {
    let Some(target) = attributes.resource else { return false };
    attributes.user.is_in(AUTHENTICATED)
        && SELF_REVIEWS.iter().any(|(group, resources)| {
            target.group == *group && resources.contains(&target.resource)
        })
}
