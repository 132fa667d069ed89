//! `kube-system/extension-apiserver-authentication`: the certificates and headers by which an
//! aggregated server authenticates the requests that this server forwards, and those of the proxies
//! that are configured for this server.
//!
//! Several servers may share the config map, and an authority may have been replaced. The required
//! values are therefore added to the existing ones, and certificates are removed only after expiry.
//!
//! Upstream: controlplane/controller/clusterauthenticationtrust

use base64::prelude::{BASE64_STANDARD, Engine};
use x509_parser::pem::Pem;

use crate::auth::authentication::request_header::RequestHeaderSettings;
use crate::extensions::aggregation::FRONT_PROXY;
use crate::in_process::loopback::LoopbackClient;
use crate::plane::Plane;
use machinery::{Map, Value, json};

pub(super) const NAME: &str = "extension-apiserver-authentication";
const CONFIG_MAPS: &str = "/api/v1/namespaces/kube-system/configmaps";

/// A certificate is still trusted for this many seconds after its expiry, since clocks differ.
const CLOCK_SKEW: i64 = 300;

/// The values that the config map must have.
struct Required {
    /// The certificates in PEM of each bundle.
    bundles: [(&'static str, String); 2],
    lists: [(&'static str, Vec<String>); 5],
}

impl Required {
    /// The values for requests that this server forwards, and after them those of the proxies that are
    /// configured for this server.
    fn new(
        clients: &str,
        own: &str,
        proxies: &str,
        settings: Option<&RequestHeaderSettings>,
    ) -> Self {
        let list = |own: &str, of_proxies: fn(&RequestHeaderSettings) -> Vec<String>| {
            let mut list = vec![own.to_owned()];
            list.extend(settings.map(of_proxies).unwrap_or_default());
            list
        };
        let proxies = if proxies.is_empty() { String::new() } else { format!("\n{proxies}") };
        Self {
            bundles: [
                ("client-ca-file", clients.to_owned()),
                ("requestheader-client-ca-file", format!("{own}{proxies}")),
            ],
            lists: [
                // If proxies may have any name, it is not added: the list would allow all users of
                // the plane's authority.
                ("requestheader-allowed-names", list(FRONT_PROXY, |it| it.allowed_names.clone())),
                (
                    "requestheader-username-headers",
                    list("X-Remote-User", |it| canonical(&it.username_headers)),
                ),
                (
                    "requestheader-uid-headers",
                    list("X-Remote-Uid", |it| canonical(&it.uid_headers)),
                ),
                (
                    "requestheader-group-headers",
                    list("X-Remote-Group", |it| canonical(&it.group_headers)),
                ),
                (
                    "requestheader-extra-headers-prefix",
                    list("X-Remote-Extra-", |it| canonical(&it.extra_prefixes)),
                ),
            ],
        }
    }

    fn of(plane: &Plane) -> Self {
        Self::new(
            &plane.client_authorities.load(),
            plane.authority.load().bundle(),
            &plane.proxy_authorities.load(),
            plane.request_header.as_deref(),
        )
    }
}

/// The names of headers as Go writes them: the first letter of each word in upper case.
fn canonical(names: &[impl AsRef<str>]) -> Vec<String> {
    let word = |it: &str| {
        let (first, rest) = it.split_at_checked(1).unwrap_or((it, ""));
        format!("{}{rest}", first.to_ascii_uppercase())
    };
    let name = |it: &str| it.split('-').map(word).collect::<Vec<_>>().join("-");
    names.iter().map(|it| name(it.as_ref())).collect()
}

/// Creates or updates the config map. The error is the message of the response.
pub(super) async fn sync(plane: &Plane, client: &LoopbackClient) -> Result<(), String> {
    let path = format!("{CONFIG_MAPS}/{NAME}");
    let found = client.get(&path).await;
    let none = Map::new();
    let mut object = found.object();
    let data = object.get(&["data"]).and_then(Value::as_object);
    let data = data.filter(|_| found.code == 200).unwrap_or(&none);
    let wanted = merge(data, &Required::of(plane), plane.storage.clock.now().seconds());
    let response = match found.code {
        200 if *data == wanted => return Ok(()),
        200 => {
            object.map_mut().insert("data".to_owned(), Value::Object(wanted));
            client.update(&path, &object.into_value()).await
        }
        _ => client.create(CONFIG_MAPS, &json!({"metadata": {"name": NAME}, "data": wanted})).await,
    };
    match response.code {
        // Another server has changed the config map; the change triggers the next synchronization.
        200 | 201 | 404 | 409 => Ok(()),
        _ => Err(response.message()),
    }
}

/// The data with all required values.
fn merge(found: &Map<String, Value>, required: &Required, now: i64) -> Map<String, Value> {
    let text = |name: &str| found.get(name).and_then(Value::as_str).unwrap_or_default();
    let Required { bundles, lists } = required;
    let bundles =
        bundles.each_ref().map(|(name, required)| (*name, bundle(text(name), required, now)));
    let lists = lists.each_ref().map(|(name, required)| (*name, list(text(name), required)));
    let data = bundles.into_iter().chain(lists);
    data.map(|(name, value)| (name.to_owned(), Value::from(value))).collect()
}

/// The certificates in PEM that have not expired, including the required one. Text that is not PEM is
/// removed.
fn bundle(found: &str, required: &str, now: i64) -> String {
    let mut certificates = Vec::new();
    for certificate in decode(found).into_iter().chain(decode(required)) {
        if !certificates.contains(&certificate) && is_valid(&certificate, now) {
            certificates.push(certificate);
        }
    }
    if certificates == decode(found) && !certificates.is_empty() {
        return found.to_owned();
    }
    if certificates == decode(required) {
        return required.to_owned();
    }
    certificates.iter().map(|it| encode(it)).collect()
}

fn decode(text: &str) -> Vec<Vec<u8>> {
    let blocks = Pem::iter_from_buffer(text.as_bytes()).filter_map(Result::ok);
    blocks.filter(|it| it.label == "CERTIFICATE").map(|it| it.contents).collect()
}

fn is_valid(certificate: &[u8], now: i64) -> bool {
    let parsed = x509_parser::parse_x509_certificate(certificate);
    parsed.is_ok_and(|(_, it)| it.validity().not_after.timestamp() + CLOCK_SKEW > now)
}

fn encode(certificate: &[u8]) -> String {
    let base64 = BASE64_STANDARD.encode(certificate);
    let mut text = "-----BEGIN CERTIFICATE-----\n".to_owned();
    let mut rest = base64.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(64));
        text += line;
        text += "\n";
        rest = after;
    }
    text + "-----END CERTIFICATE-----\n"
}

/// The list, in JSON, including the required names.
fn list(found: &str, required: &[String]) -> String {
    let mut names: Vec<String> = Vec::new();
    let found = serde_json::from_str::<Vec<String>>(found).unwrap_or_default();
    for name in found.iter().chain(required) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    json!(names).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::authentication::client_authorities::ClientAuthorities;
    use crate::certificates::Authority;
    use keel::Timestamp;

    const NOW: i64 = 1_700_000_000;
    const TEN_YEARS: i64 = 3650 * 24 * 3600;

    fn authority(created: i64) -> String {
        let created = Timestamp::from_seconds(created);
        Authority::new(created).unwrap().certificate().to_owned()
    }

    #[test]
    fn complete_data_is_unchanged() {
        let required = authority(NOW);
        let values = Required::new(&required, &required, "", None);
        let data = merge(&Map::new(), &values, NOW);
        assert_eq!(data["client-ca-file"], Value::from(required.as_str()));
        assert_eq!(data["requestheader-uid-headers"], r#"["X-Remote-Uid"]"#);
        assert_eq!(merge(&data, &values, NOW), data);
    }

    #[test]
    fn the_authority_names_and_headers_of_configured_proxies_follow_those_of_the_server() {
        let [clients, own, proxies] = [NOW, NOW + 1, NOW + 2].map(authority);
        let settings = RequestHeaderSettings {
            authorities: ClientAuthorities::new(proxies.clone()),
            allowed_names: vec!["gateway".to_owned(), FRONT_PROXY.to_owned()],
            username_headers: vec!["x-gateway-user".parse().unwrap()],
            uid_headers: Vec::new(),
            group_headers: vec!["x-remote-group".parse().unwrap()],
            extra_prefixes: vec!["x-gateway-".to_owned()],
        };
        let values = Required::new(&clients, &own, &proxies, Some(&settings));
        let data = merge(&Map::new(), &values, NOW);
        let bundle = data["requestheader-client-ca-file"].as_str().unwrap();
        assert_eq!(decode(bundle), [decode(&own), decode(&proxies)].concat());
        for (name, expected) in [
            ("requestheader-allowed-names", r#"["front-proxy-client","gateway"]"#),
            ("requestheader-username-headers", r#"["X-Remote-User","X-Gateway-User"]"#),
            ("requestheader-uid-headers", r#"["X-Remote-Uid"]"#),
            ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
            ("requestheader-extra-headers-prefix", r#"["X-Remote-Extra-","X-Gateway-"]"#),
        ] {
            assert_eq!(data[name], expected, "{name}");
        }
    }

    #[test]
    fn a_new_authority_is_added_to_the_valid_ones() {
        let (old, expired, new) =
            (authority(NOW - 1), authority(NOW - TEN_YEARS - 3600), authority(NOW));
        let bundle = bundle(&format!("{expired}{old}{old}"), &new, NOW);
        let both = [decode(&old), decode(&new)].concat();
        assert_eq!(decode(&bundle), both);
        assert_eq!(super::bundle(&bundle, &new, NOW), bundle);
    }

    #[test]
    fn data_that_cannot_be_parsed_is_replaced() {
        let required = authority(NOW);
        assert_eq!(bundle("rubbish", &required, NOW), required);
        let a = ["a".to_owned()];
        assert_eq!(list("rubbish", &a), r#"["a"]"#);
        assert_eq!(list(r#"["b","b"]"#, &a), r#"["b","a"]"#);
    }
}
