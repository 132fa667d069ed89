//! Acting as somebody else: the `Impersonate-*` headers, for those who may do everything.

use crate::authentication::{MASTERS, User, service_account};
use http::HeaderMap;
use machinery::{GroupResource, Status, field_path::quote};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

/// Who the request is to be judged as.
pub fn impersonate(user: User, headers: &HeaderMap) -> Result<User, Status> {
    let all = |name: &'static str| {
        headers.get_all(name).iter().filter_map(|it| it.to_str().ok().map(ToOwned::to_owned))
    };
    let Some(name) = all(USER).next() else {
        if headers.contains_key(GROUP) || headers.contains_key(UID) {
            return Err(Status::internal(
                "requested impersonation of groups or uid without impersonating a user",
            ));
        }
        return Ok(user);
    };
    if !user.is_in(MASTERS) {
        let why = format!(
            "User {} cannot impersonate resource \"users\" in API group \"\" at the cluster scope",
            quote(&user.name)
        );
        return Err(Status::forbidden(&GroupResource::new("", "users"), &name, &why));
    }
    if name == "system:anonymous" {
        return Ok(User::anonymous());
    }
    let uid = all(UID).next().unwrap_or_default();
    let mut user = match (service_account::parse_user(&name), headers.contains_key(GROUP)) {
        (Some((namespace, account)), false) => service_account::account(namespace, account, &uid),
        _ => User::authenticated(&name, &uid, all(GROUP).collect()),
    };
    for (header, value) in headers {
        let Some(key) = header.as_str().strip_prefix(EXTRA) else { continue };
        let key = percent_encoding::percent_decode_str(key).decode_utf8_lossy().into_owned();
        let values = user.extra.entry(key).or_default();
        values.extend(value.to_str().ok().map(ToOwned::to_owned));
    }
    Ok(user)
}
