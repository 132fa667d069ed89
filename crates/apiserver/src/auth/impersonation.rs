//! Impersonation of other users by the `Impersonate-*` headers, for users that are allowed to do so.
//!
//! A *mode* defines which users can be impersonated and which verbs are required. The modes are tried
//! in turn, and the first that the authorizers allow is used; if none is allowed, the error is that of
//! the first mode that applies. The mode that was last allowed for a user is tried first
//! ([`LastModes`]).
//!
//! | mode | impersonated users | verbs |
//! |---|---|---|
//! | `arbitrary-node` | a node, by its name alone | `impersonate-on:arbitrary-node:<verb>`, `impersonate:arbitrary-node` |
//! | `serviceaccount` | a service account, by its name alone | likewise |
//! | `user-info` | all other users, but no member of `system:masters` | likewise |
//! | legacy | all users | `impersonate` |
//!
//! Upstream: endpoints/filters/impersonation

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::HeaderMap;

use crate::auth::authentication::{
    ANONYMOUS, NODE_PREFIX, NODES, UNAUTHENTICATED, User, decode_extra_key, service_account,
};
use crate::auth::authorization::{Attributes, Authorizers, ResourceAttributes, forbidden, masters};
use crate::http::headers;
use crate::request::RequestInfo;
use machinery::field_path::quote;
use machinery::{Status, names};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

/// A user that another one impersonates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Impersonation {
    /// The impersonated user.
    pub user: User,
    /// The verb of the mode that allows it, such as `impersonate:user-info`; None for the legacy mode.
    pub constraint: Option<&'static str>,
}

/// The maximum number of users in [`LastModes`]. The value is upstream's.
const MAX_LAST_MODES: usize = 10_000;

/// The mode that was last allowed for each user. It is emptied when it is full, which changes the
/// order of the modes only.
#[derive(Debug, Default)]
pub struct LastModes(Mutex<HashMap<u64, Mode>>);

impl LastModes {
    /// The modes in the order in which they are tried.
    fn order(&self, user: &User) -> impl Iterator<Item = Mode> {
        let last = self.lock().get(&key(user)).copied();
        last.into_iter().chain(Mode::ALL.into_iter().filter(move |it| Some(*it) != last))
    }

    fn set(&self, user: &User, mode: Mode) {
        let mut modes = self.lock();
        if modes.len() >= MAX_LAST_MODES {
            modes.clear();
        }
        modes.insert(key(user), mode);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Mode>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Users with the same hash share a mode, which is harmless.
fn key(user: &User) -> u64 {
    let mut hasher = DefaultHasher::new();
    user.name.hash(&mut hasher);
    hasher.finish()
}

/// The user that the headers impersonate; None if they impersonate none.
pub async fn impersonate(
    authorizers: &Authorizers,
    last_modes: &LastModes,
    user: &User,
    headers: &HeaderMap,
    info: &RequestInfo,
) -> Result<Option<Impersonation>, Status> {
    let Some(requested) = requested_user(headers)? else { return Ok(None) };
    let mut refusal = None;
    for mode in last_modes.order(user).filter(|it| it.applies(&requested)) {
        match mode.check(authorizers, user, &requested, info).await {
            Ok(()) => {
                last_modes.set(user, mode);
                let user = with_implied_groups(requested, mode);
                return Ok(Some(Impersonation { user, constraint: mode.constraint() }));
            }
            Err(status) => refusal = refusal.or(Some(status)),
        }
    }
    let attributes = Attributes::new(user, info);
    Err(refusal.unwrap_or_else(|| forbidden(&attributes, "all impersonation modes failed")))
}

/// See the [module documentation](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    Legacy,
}

impl Mode {
    const ALL: [Self; 4] =
        [Self::ArbitraryNode, Self::ServiceAccount, Self::UserInfo, Self::Legacy];

    /// The name of the mode; None for the legacy mode.
    fn name(self) -> Option<&'static str> {
        match self {
            Self::ArbitraryNode => Some("arbitrary-node"),
            Self::ServiceAccount => Some("serviceaccount"),
            Self::UserInfo => Some("user-info"),
            Self::Legacy => None,
        }
    }

    /// The verb on the user that the mode requires; None for the legacy mode.
    fn constraint(self) -> Option<&'static str> {
        match self {
            Self::ArbitraryNode => Some("impersonate:arbitrary-node"),
            Self::ServiceAccount => Some("impersonate:serviceaccount"),
            Self::UserInfo => Some("impersonate:user-info"),
            Self::Legacy => None,
        }
    }

    fn applies(self, requested: &User) -> bool {
        let is_name_only =
            requested.uid.is_empty() && requested.groups.is_empty() && requested.extra.is_empty();
        let is_account = service_account::parse_user(&requested.name).is_some();
        match self {
            Self::ArbitraryNode => is_name_only && is_node(&requested.name),
            Self::ServiceAccount => is_name_only && is_account,
            Self::UserInfo => !is_node(&requested.name) && !is_account,
            Self::Legacy => true,
        }
    }

    /// Checks that `user` may impersonate `requested` with all its attributes, and may do so for this
    /// request.
    async fn check(
        self,
        authorizers: &Authorizers,
        user: &User,
        requested: &User,
        info: &RequestInfo,
    ) -> Result<(), Status> {
        let request = Attributes::new(user, info);
        let (verb, group) = match self.name() {
            Some(name) => {
                let verb = format!("impersonate-on:{name}:{}", request.verb);
                authorizers.check(&Attributes { verb: &verb, ..request }).await?;
                (format!("impersonate:{name}"), "authentication.k8s.io")
            }
            None => ("impersonate".to_owned(), ""),
        };
        let verb = verb.as_str();
        let check = async |resource| {
            authorizers.check(&Attributes::of_resource(user, verb, resource)).await
        };
        check(self.user_attributes(group, &requested.name)).await?;
        let user_info = ResourceAttributes {
            group: "authentication.k8s.io",
            version: "v1",
            ..ResourceAttributes::default()
        };
        if !requested.uid.is_empty() {
            check(ResourceAttributes { resource: "uids", name: &requested.uid, ..user_info })
                .await?;
        }
        for name in &requested.groups {
            let attributes =
                ResourceAttributes { group, version: "v1", resource: "groups", name, ..user_info };
            if let Some(why) = self.group_error(name) {
                let attributes = Attributes::of_resource(user, verb, attributes);
                return Err(forbidden(&attributes, &why));
            }
            check(attributes).await?;
        }
        for (subresource, values) in &requested.extra {
            for name in values {
                let resource = "userextras";
                check(ResourceAttributes { resource, subresource, name, ..user_info }).await?;
            }
        }
        Ok(())
    }

    /// The resource that represents a user in the authorization check.
    fn user_attributes<'a>(self, group: &'a str, user: &'a str) -> ResourceAttributes<'a> {
        let attributes = ResourceAttributes { group, version: "v1", ..Default::default() };
        if let Some((namespace, name)) = service_account::parse_user(user) {
            return ResourceAttributes {
                resource: "serviceaccounts",
                namespace,
                name,
                ..attributes
            };
        }
        if self == Self::ArbitraryNode {
            let name = user.strip_prefix(NODE_PREFIX).unwrap_or(user);
            return ResourceAttributes { resource: "nodes", name, ..attributes };
        }
        ResourceAttributes { resource: "users", name: user, ..attributes }
    }

    /// The reason why a group can never be impersonated in this mode.
    fn group_error(self, group: &str) -> Option<String> {
        if self == Self::Legacy {
            return None;
        }
        if group.is_empty() {
            return Some("impersonating the empty string group is not allowed".to_owned());
        }
        masters::is_masters_group(group)
            .then(|| format!("impersonating the {group} group is not allowed"))
    }
}

/// The user in the headers, without implied groups; None if no header impersonates a user.
///
/// Upstream: endpoints/filters/impersonation `processImpersonationHeaders`. An empty name or uid
/// counts as absent; of several values, the first is used.
fn requested_user(headers: &HeaderMap) -> Result<Option<User>, Status> {
    let all = |name: &str| -> Result<Vec<String>, Status> {
        let values = headers.get_all(name).iter();
        values.map(|it| Ok(headers::to_utf8(name, it)?.to_owned())).collect()
    };
    let first = |values: Vec<String>| values.into_iter().next().unwrap_or_default();
    let user = User {
        name: first(all(USER)?),
        uid: first(all(UID)?),
        groups: all(GROUP)?,
        extra: extra(headers)?,
        ..User::default()
    };
    if !user.name.is_empty() {
        return Ok(Some(user));
    }
    if user.uid.is_empty() && user.groups.is_empty() && user.extra.is_empty() {
        return Ok(None);
    }
    Err(missing_name(&user.uid, &user.groups, &user.extra))
}

/// Adds the groups that are implied by the user name.
///
/// Upstream: endpoints/filters/impersonation/mode.go `impersonationModeState.check`.
fn with_implied_groups(mut user: User, mode: Mode) -> User {
    if user.groups.is_empty() {
        if let Some((namespace, _)) = service_account::parse_user(&user.name) {
            user.groups = service_account::groups(namespace);
        } else if mode == Mode::ArbitraryNode {
            user.groups.push(NODES.to_owned());
        }
    }
    if user.name == ANONYMOUS && !user.is_in(UNAUTHENTICATED) {
        user.groups.push(UNAUTHENTICATED.to_owned());
    }
    user.with_authenticated_group()
}

fn is_node(name: &str) -> bool {
    name.strip_prefix(NODE_PREFIX).is_some_and(|it| names::dns1123_subdomain(it).is_empty())
}

fn extra(headers: &HeaderMap) -> Result<BTreeMap<String, Vec<String>>, Status> {
    let mut extra = BTreeMap::<String, Vec<String>>::new();
    for (header, value) in headers {
        let Some(key) = header.as_str().strip_prefix(EXTRA) else { continue };
        let value = headers::to_utf8(header.as_str(), value)?;
        let key = decode_extra_key(key).ok_or_else(|| {
            Status::bad_request(format!("the header {header} does not decode to valid UTF-8"))
        })?;
        extra.entry(key.into_owned()).or_default().push(value.to_owned());
    }
    Ok(extra)
}

/// The error for headers without a user name. Upstream's message contains the Go struct.
fn missing_name(uid: &str, groups: &[String], extra: &BTreeMap<String, Vec<String>>) -> Status {
    let list = |values: &[String]| {
        let values: Vec<String> = values.iter().map(|it| quote(it)).collect();
        format!("[]string{{{}}}", values.join(", "))
    };
    let groups = if groups.is_empty() { "[]string(nil)".to_owned() } else { list(groups) };
    let extra = if extra.is_empty() {
        "map[string][]string(nil)".to_owned()
    } else {
        let all = extra.iter().map(|(key, values)| format!("{}:{}", quote(key), list(values)));
        format!("map[string][]string{{{}}}", all.collect::<Vec<_>>().join(", "))
    };
    let uid = quote(uid);
    Status::bad_request(format!(
        "requested &user.DefaultInfo{{Name:\"\", UID:{uid}, Groups:{groups}, Extra:{extra}}} without impersonating a user name"
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt;
    use http::{HeaderName, HeaderValue, Method};

    use super::*;
    use crate::auth::authorization::{Authorization, Authorizer, Decision, Rules};
    use crate::request::Query;

    /// Allows verbs on resources, each written as `verb resource name`.
    #[derive(Debug)]
    struct AllowList(&'static [&'static str]);

    impl Authorizer for AllowList {
        fn name(&self) -> &'static str {
            "list"
        }

        fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> Authorization<'a> {
            let resource = attributes.resource.unwrap_or_default();
            let requested = format!("{} {} {}", attributes.verb, resource.resource, resource.name);
            if self.0.contains(&requested.trim_end()) {
                return Decision::allow().into();
            }
            Decision::no_opinion("").into()
        }

        fn rules(&self, _: &User, _: &str, _: &mut Rules) {}
    }

    /// Impersonates the user of `headers` in a list of pods. Returns the name and the groups of the
    /// impersonated user.
    fn list_pods(
        rights: &'static [&'static str],
        headers: &[(&str, &str)],
    ) -> Result<String, String> {
        list_pods_after(&LastModes::default(), rights, headers)
    }

    fn list_pods_after(
        last_modes: &LastModes,
        rights: &'static [&'static str],
        headers: &[(&str, &str)],
    ) -> Result<String, String> {
        let authorizers = Authorizers::new(&[Arc::new(AllowList(rights))]);
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| {
                (HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap())
            })
            .collect();
        let info = RequestInfo::parse(&Method::GET, "/api/v1/pods", &Query::default()).unwrap();
        let bob = User::authenticated("bob", "", vec![]);
        impersonate(&authorizers, last_modes, &bob, &headers, &info)
            .now_or_never()
            .expect("the allow list is in memory")
            .map(|it| it.expect("the headers impersonate a user").user)
            .map(|user| format!("{} {:?}", user.name, user.groups))
            .map_err(|status| status.message)
    }

    #[test]
    fn a_mode_requires_its_verb_on_the_user_and_its_verb_on_the_request() {
        let alice = [(USER, "alice")];
        assert_eq!(
            list_pods(
                &["impersonate-on:user-info:list pods", "impersonate:user-info users alice"],
                &alice
            ),
            Ok(r#"alice ["system:authenticated"]"#.to_owned())
        );
        assert_eq!(
            list_pods(&["impersonate:user-info users alice"], &alice).unwrap_err(),
            r#"pods is forbidden: User "bob" cannot impersonate-on:user-info:list resource "pods" in API group "" at the cluster scope"#
        );
        assert_eq!(
            list_pods(&["impersonate-on:user-info:list pods"], &alice).unwrap_err(),
            r#"users.authentication.k8s.io "alice" is forbidden: User "bob" cannot impersonate:user-info resource "users" in API group "authentication.k8s.io" at the cluster scope"#
        );
    }

    #[test]
    fn the_legacy_mode_requires_only_the_verb_impersonate() {
        let headers = [(USER, "alice"), (GROUP, "dev"), ("impersonate-extra-scopes", "view")];
        let rights =
            &["impersonate users alice", "impersonate groups dev", "impersonate userextras view"];
        assert_eq!(
            list_pods(rights, &headers),
            Ok(r#"alice ["dev", "system:authenticated"]"#.to_owned())
        );
        assert!(
            list_pods(&["impersonate users alice", "impersonate groups dev"], &headers).is_err()
        );
    }

    #[test]
    fn the_error_is_that_of_the_mode_that_was_last_allowed() {
        let modes = LastModes::default();
        let list = |name| list_pods_after(&modes, &["impersonate users alice"], &[(USER, name)]);
        let before = list("carol").unwrap_err();
        assert!(before.contains("cannot impersonate-on:user-info:list"), "{before}");
        assert!(list("alice").is_ok());
        assert_eq!(
            list("carol").unwrap_err(),
            r#"users "carol" is forbidden: User "bob" cannot impersonate resource "users" in API group "" at the cluster scope"#
        );
    }

    #[test]
    fn the_number_of_remembered_modes_is_bounded() {
        let modes = LastModes::default();
        for number in 0..=MAX_LAST_MODES {
            modes.set(&User::authenticated(&number.to_string(), "", vec![]), Mode::Legacy);
        }
        assert_eq!(modes.lock().len(), 1);
    }

    #[test]
    fn a_service_account_is_impersonated_with_the_verbs_of_its_mode() {
        let account = [(USER, "system:serviceaccount:default:builder")];
        let rights = &[
            "impersonate-on:serviceaccount:list pods",
            "impersonate:serviceaccount serviceaccounts builder",
        ];
        assert!(list_pods(rights, &account).is_ok());
        let refusal = list_pods(&["impersonate-on:user-info:list pods"], &account).unwrap_err();
        assert!(refusal.contains("impersonate-on:serviceaccount:list"), "{refusal}");
    }

    #[test]
    fn only_the_mode_arbitrary_node_implies_the_group_system_nodes() {
        let node = [(USER, "system:node:n1")];
        assert_eq!(
            list_pods(
                &["impersonate-on:arbitrary-node:list pods", "impersonate:arbitrary-node nodes n1"],
                &node
            ),
            Ok(r#"system:node:n1 ["system:nodes", "system:authenticated"]"#.to_owned())
        );
        assert_eq!(
            list_pods(&["impersonate users system:node:n1"], &node),
            Ok(r#"system:node:n1 ["system:authenticated"]"#.to_owned())
        );
    }

    #[test]
    fn system_masters_can_be_impersonated_by_the_verb_impersonate_only() {
        let masters = [(USER, "alice"), (GROUP, "system:masters")];
        let mode = &[
            "impersonate-on:user-info:list pods",
            "impersonate:user-info users alice",
            "impersonate:user-info groups system:masters",
        ];
        let refusal = list_pods(mode, &masters).unwrap_err();
        assert!(
            refusal.ends_with("impersonating the system:masters group is not allowed"),
            "{refusal}"
        );
        let legacy = &["impersonate users alice", "impersonate groups system:masters"];
        assert!(list_pods(legacy, &masters).is_ok());
    }
}
