//! Acting as somebody else: the `Impersonate-*` headers, for those who may do everything.

use crate::auth::authentication::{
    ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, User, service_account,
};
use crate::auth::authorization::forbidden;
use crate::http::headers;
use crate::request::{RequestInfo, is_well_escaped};
use http::HeaderMap;
use machinery::{Status, field_path::quote, names};
use std::borrow::Cow;
use std::collections::BTreeMap;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

/// The user as whom the request is authorized: the impersonated one, or the one who sent it.
pub fn impersonate(user: User, headers: &HeaderMap, info: &RequestInfo) -> Result<User, Status> {
    let Some(wanted) = wanted(headers)? else { return Ok(user) };
    if !user.is_in(MASTERS) {
        return Err(forbidden(&user, info, "impersonate-on:user-info:"));
    }
    Ok(completed(wanted))
}

/// The user whom the headers ask for, as they are written; None if there is no name.
///
/// Upstream: endpoints/filters/impersonation `processImpersonationHeaders`. A name or uid that is
/// empty counts as absent, and of several the first counts.
fn wanted(headers: &HeaderMap) -> Result<Option<User>, Status> {
    let all = |name: &str| -> Result<Vec<String>, Status> {
        let values = headers.get_all(name).iter();
        values.map(|it| Ok(headers::strict(name, it)?.to_owned())).collect()
    };
    let first = |values: Vec<String>| values.into_iter().next().unwrap_or_default();
    let user = User {
        name: first(all(USER)?),
        uid: first(all(UID)?),
        groups: all(GROUP)?,
        extra: extra(headers)?,
    };
    if !user.name.is_empty() {
        return Ok(Some(user));
    }
    if user.uid.is_empty() && user.groups.is_empty() && user.extra.is_empty() {
        return Ok(None);
    }
    Err(nameless(&user.uid, &user.groups, &user.extra))
}

/// The groups that follow from a name are added.
///
/// Upstream: endpoints/filters/impersonation/mode.go `impersonationModeState.check`.
fn completed(mut user: User) -> User {
    if user.groups.is_empty() {
        if let Some((namespace, _)) = service_account::parse_user(&user.name) {
            user.groups = service_account::groups(namespace);
        } else if is_node(&user.name) && user.uid.is_empty() && user.extra.is_empty() {
            user.groups.push("system:nodes".to_owned());
        }
    }
    let group = if user.name == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
    if !user.is_in(group) && !user.is_in(UNAUTHENTICATED) {
        user.groups.push(group.to_owned());
    }
    user
}

fn is_node(name: &str) -> bool {
    name.strip_prefix("system:node:").is_some_and(|it| names::dns1123_subdomain(it).is_empty())
}

fn extra(headers: &HeaderMap) -> Result<BTreeMap<String, Vec<String>>, Status> {
    let mut extra = BTreeMap::<String, Vec<String>>::new();
    for (header, value) in headers {
        let Some(key) = header.as_str().strip_prefix(EXTRA) else { continue };
        let value = headers::strict(header.as_str(), value)?;
        extra.entry(extra_key(key)?).or_default().push(value.to_owned());
    }
    Ok(extra)
}

/// Upstream: a key whose percent signs escape nothing is taken as it is.
fn extra_key(key: &str) -> Result<String, Status> {
    if !is_well_escaped(key) {
        return Ok(key.to_owned());
    }
    let decoded = percent_encoding::percent_decode_str(key).decode_utf8();
    decoded.map(Cow::into_owned).map_err(|_| {
        Status::bad_request(format!("the header {EXTRA}{key} does not decode to valid UTF-8"))
    })
}

/// Upstream shows what it has read, as Go writes it.
fn nameless(uid: &str, groups: &[String], extra: &BTreeMap<String, Vec<String>>) -> Status {
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
