//! Acting as somebody else: the `Impersonate-*` headers, for those who may do everything.

use crate::authentication::{MASTERS, User, service_account};
use crate::authorization::forbidden;
use crate::request::RequestInfo;
use http::HeaderMap;
use machinery::{Status, field_path::quote};
use std::collections::BTreeMap;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

/// Who the request is to be judged as.
pub fn impersonate(user: User, headers: &HeaderMap, info: &RequestInfo) -> Result<User, Status> {
    let all = |name: &'static str| {
        headers.get_all(name).iter().filter_map(|it| it.to_str().ok().map(ToOwned::to_owned))
    };
    let extra = extra(headers);
    let uid = all(UID).next().unwrap_or_default();
    let Some(name) = all(USER).next().filter(|it| !it.is_empty()) else {
        let groups: Vec<String> = all(GROUP).collect();
        if groups.is_empty() && uid.is_empty() && extra.is_empty() {
            return Ok(user);
        }
        return Err(nameless(&uid, &groups, &extra));
    };
    if !user.is_in(MASTERS) {
        return Err(forbidden(&user, info, "impersonate-on:user-info:"));
    }
    if name == "system:anonymous" {
        return Ok(User::anonymous());
    }
    let mut user = match (service_account::parse_user(&name), headers.contains_key(GROUP)) {
        (Some((namespace, account)), false) => service_account::account(namespace, account, &uid),
        _ => User::authenticated(&name, &uid, all(GROUP).collect()),
    };
    for (key, values) in extra {
        user.extra.entry(key).or_default().extend(values);
    }
    Ok(user)
}

fn extra(headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
    let mut extra = BTreeMap::<String, Vec<String>>::new();
    for (header, value) in headers {
        let Some(key) = header.as_str().strip_prefix(EXTRA) else { continue };
        let key = percent_encoding::percent_decode_str(key).decode_utf8_lossy().into_owned();
        extra.entry(key).or_default().extend(value.to_str().ok().map(ToOwned::to_owned));
    }
    extra
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
