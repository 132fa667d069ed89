//! `kube-system/extension-apiserver-authentication`: the certificates and headers by which an
//! aggregated server authenticates the requests that this server forwards.
//!
//! Several servers may share the config map, and an authority may have been replaced. The required
//! values are therefore added to the existing ones, and certificates are removed only after expiry.
//!
//! Upstream: controlplane/controller/clusterauthenticationtrust

use base64::prelude::{BASE64_STANDARD, Engine};
use x509_parser::pem::Pem;

use crate::extensions::aggregation::FRONT_PROXY;
use crate::in_process::loopback::LoopbackClient;
use crate::plane::Plane;
use machinery::{Map, Value, json};

pub(super) const NAME: &str = "extension-apiserver-authentication";
const CONFIG_MAPS: &str = "/api/v1/namespaces/kube-system/configmaps";

/// A certificate is still trusted for this many seconds after its expiry, since clocks differ.
const CLOCK_SKEW: i64 = 300;

/// The certificates in PEM of each bundle: those of clients, and that of the front proxy, which is this
/// server.
fn required(plane: &Plane) -> [(&'static str, String); 2] {
    [
        ("client-ca-file", plane.client_authorities.load().as_str().to_owned()),
        ("requestheader-client-ca-file", plane.authority.load().bundle().to_owned()),
    ]
}

const LISTS: [(&str, &str); 5] = [
    ("requestheader-allowed-names", FRONT_PROXY),
    ("requestheader-username-headers", "X-Remote-User"),
    ("requestheader-uid-headers", "X-Remote-Uid"),
    ("requestheader-group-headers", "X-Remote-Group"),
    ("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
];

/// Creates or updates the config map. The error is the message of the response.
pub(super) async fn sync(plane: &Plane, client: &LoopbackClient) -> Result<(), String> {
    let path = format!("{CONFIG_MAPS}/{NAME}");
    let found = client.get(&path).await;
    let none = Map::new();
    let mut object = found.object();
    let data = object.get(&["data"]).and_then(Value::as_object);
    let data = data.filter(|_| found.code == 200).unwrap_or(&none);
    let required = required(plane);
    let required = required.each_ref().map(|(name, bundle)| (*name, bundle.as_str()));
    let wanted = merge(data, &required, plane.storage.clock.now().seconds());
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
fn merge(
    found: &Map<String, Value>,
    required: &[(&'static str, &str); 2],
    now: i64,
) -> Map<String, Value> {
    let text = |name: &str| found.get(name).and_then(Value::as_str).unwrap_or_default();
    let bundles = required.map(|(name, required)| (name, bundle(text(name), required, now)));
    let lists = LISTS.map(|(name, required)| (name, list(text(name), required)));
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

/// The list, in JSON, including the required name.
fn list(found: &str, required: &str) -> String {
    let mut names: Vec<String> = Vec::new();
    for name in serde_json::from_str::<Vec<String>>(found).unwrap_or_default() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if !names.iter().any(|it| it == required) {
        names.push(required.to_owned());
    }
    json!(names).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let bundles = ["client-ca-file", "requestheader-client-ca-file"];
        let bundles = bundles.map(|name| (name, required.as_str()));
        let data = merge(&Map::new(), &bundles, NOW);
        assert_eq!(data["client-ca-file"], Value::from(required.as_str()));
        assert_eq!(data["requestheader-uid-headers"], r#"["X-Remote-Uid"]"#);
        assert_eq!(merge(&data, &bundles, NOW), data);
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
        assert_eq!(list("rubbish", "a"), r#"["a"]"#);
        assert_eq!(list(r#"["b","b"]"#, "a"), r#"["b","a"]"#);
    }
}
