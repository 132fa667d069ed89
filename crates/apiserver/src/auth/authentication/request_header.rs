//! [`RequestHeaderSettings`]: the authenticating proxies that name the user of a request in headers.
//!
//! Only a client with a certificate of the proxies' own authority, and with an allowed name, may do
//! so. The headers of all other clients are ignored.
//!
//! Upstream: `authentication/request/headerrequest`.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::client_authorities::ClientAuthorities;
use super::{User, decode_extra_key};
use machinery::Status;

/// See the [module documentation](self).
#[derive(Debug, Clone)]
pub struct RequestHeaderSettings {
    /// The authorities of the proxies' certificates.
    pub authorities: ClientAuthorities,
    /// The common names of the proxies' certificates; if empty, all are allowed.
    pub allowed_names: Vec<String>,
    /// The headers with the user name. The first one that is not empty counts.
    pub username_headers: Vec<HeaderName>,
    /// The headers with the uid. The first one that is not empty counts.
    pub uid_headers: Vec<HeaderName>,
    /// The headers with the groups.
    pub group_headers: Vec<HeaderName>,
    /// The prefixes of headers with further attributes, in lower case.
    pub extra_prefixes: Vec<String>,
}

/// The reason why the settings cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Name the proxies, or use an authority of their own.
    #[error(
        "--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; --requestheader-allowed-names must be specified to ensure regular client certificates cannot set authenticating proxy headers for arbitrary users"
    )]
    Overlap,
}

impl RequestHeaderSettings {
    /// Fails if every client whose certificate is accepted were a proxy. `proxies` has the present
    /// authorities of proxies, and `clients` those of clients, in PEM.
    pub(crate) fn check_overlap(&self, proxies: &str, clients: &str) -> Result<(), Error> {
        let read = |bundle: &str| -> Vec<CertificateDer<'static>> {
            CertificateDer::pem_slice_iter(bundle.as_bytes()).flatten().collect()
        };
        let clients = read(clients);
        let overlaps = read(proxies).iter().any(|it| clients.contains(it));
        if overlaps && self.allowed_names.is_empty() { Err(Error::Overlap) } else { Ok(()) }
    }

    /// Returns whether a certificate with this common name is that of a proxy.
    pub(crate) fn allows(&self, name: Option<&str>) -> bool {
        self.allowed_names.is_empty() || self.allowed_names.iter().any(|it| Some(&**it) == name)
    }

    /// The user in the headers of a proxy's request; None if they name none. Text that is not UTF-8 is
    /// refused, since different names could become the same one.
    pub(crate) fn user(&self, headers: &HeaderMap) -> Result<Option<User>, Status> {
        let name = first(headers, &self.username_headers)?;
        if name.is_empty() {
            return Ok(None);
        }
        let mut groups = Vec::new();
        for value in self.group_headers.iter().flat_map(|it| headers.get_all(it)) {
            let group = text(value.as_bytes())?;
            if !group.is_empty() {
                groups.push(group.to_owned());
            }
        }
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for prefix in &self.extra_prefixes {
            for (header, value) in headers {
                let Some(key) = header.as_str().strip_prefix(prefix.as_str()) else { continue };
                let key = decode_extra_key(key).ok_or_else(Status::unauthorized)?;
                extra.entry(key.into_owned()).or_default().push(text(value.as_bytes())?.to_owned());
            }
        }
        let uid = first(headers, &self.uid_headers)?.to_owned();
        let user = User { name: name.to_owned(), uid, groups, extra, ..User::default() };
        // Upstream: a proxy may say that its client is not authenticated.
        Ok(Some(user.with_authenticated_group()))
    }

    /// Removes the headers, so that no other server takes them for its own.
    pub(crate) fn remove_from(&self, headers: &mut HeaderMap) {
        let all = [&self.username_headers, &self.uid_headers, &self.group_headers];
        for header in all.into_iter().flatten() {
            headers.remove(header);
        }
        let is_extra =
            |it: &HeaderName| self.extra_prefixes.iter().any(|p| it.as_str().starts_with(p));
        let extra: Vec<HeaderName> = headers.keys().filter(|it| is_extra(it)).cloned().collect();
        for header in extra {
            headers.remove(header);
        }
    }
}

/// The first value of the first of these headers that is not empty.
fn first<'a>(headers: &'a HeaderMap, names: &[HeaderName]) -> Result<&'a str, Status> {
    for value in names.iter().filter_map(|it| headers.get(it)) {
        if !value.is_empty() {
            return text(value.as_bytes());
        }
    }
    Ok("")
}

fn text(value: &[u8]) -> Result<&str, Status> {
    std::str::from_utf8(value).map_err(|_| Status::unauthorized())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::auth::authentication::AUTHENTICATED;

    fn settings() -> RequestHeaderSettings {
        RequestHeaderSettings {
            authorities: ClientAuthorities::default(),
            allowed_names: vec!["proxy".to_owned()],
            username_headers: vec!["x-user".parse().unwrap(), "x-remote-user".parse().unwrap()],
            uid_headers: vec!["x-remote-uid".parse().unwrap()],
            group_headers: vec!["x-remote-group".parse().unwrap()],
            extra_prefixes: vec!["x-remote-extra-".to_owned()],
        }
    }

    fn headers(list: &[(&'static str, &[u8])]) -> HeaderMap {
        let value = |it: &[u8]| HeaderValue::from_bytes(it).unwrap();
        let mut headers = HeaderMap::new();
        for (name, text) in list {
            headers.append(HeaderName::from_static(name), value(text));
        }
        headers
    }

    #[test]
    fn headers_have_name_uid_groups_and_extra() {
        let mut headers = headers(&[
            ("x-user", b""),
            ("x-remote-user", b"alice"),
            ("x-remote-uid", b"7"),
            ("x-remote-group", b"dev"),
            ("x-remote-group", b"ops"),
            ("x-remote-extra-example.com%2fscope", b"a"),
            ("x-remote-extra-bad%2f%zz", b"b"),
            ("accept", b"*/*"),
        ]);
        let user = settings().user(&headers).unwrap().unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("alice", "7"));
        assert_eq!(user.groups, ["dev", "ops", AUTHENTICATED]);
        let extra: Vec<_> = user.extra.iter().map(|(key, it)| (&**key, it.join(","))).collect();
        let expect = [("bad%2f%zz", "b".to_owned()), ("example.com/scope", "a".to_owned())];
        assert_eq!(extra, expect);
        settings().remove_from(&mut headers);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);
    }

    #[test]
    fn a_proxy_may_name_an_anonymous_user_or_none() {
        assert_eq!(settings().user(&headers(&[("x-remote-group", b"dev")])), Ok(None));
        let anonymous = headers(&[
            ("x-remote-user", b"system:anonymous"),
            ("x-remote-group", b"system:unauthenticated"),
        ]);
        assert_eq!(settings().user(&anonymous), Ok(Some(User::anonymous())));
    }

    #[test]
    fn text_that_is_not_utf_8_is_refused() {
        for header in ["x-remote-user", "x-remote-uid", "x-remote-group", "x-remote-extra-a"] {
            let mut headers = headers(&[(header, b"\xff")]);
            headers.append("x-remote-user", HeaderValue::from_static("alice"));
            assert_eq!(settings().user(&headers).map_err(|it| it.code), Err(401), "{header}");
        }
        let headers = headers(&[("x-remote-user", b"alice"), ("x-remote-extra-a%ff", b"x")]);
        assert_eq!(settings().user(&headers).map_err(|it| it.code), Err(401), "a key");
    }

    #[test]
    fn only_allowed_names_are_those_of_proxies() {
        let all = RequestHeaderSettings { allowed_names: Vec::new(), ..settings() };
        assert!(all.allows(None) && all.allows(Some("x")));
        assert!(settings().allows(Some("proxy")));
        assert!(!settings().allows(Some("x")) && !settings().allows(None));
    }
}
