//! The format `legacy` of the log: one line of text for each event, without objects.
//!
//! Upstream: `audit.EventString`

use serde::Deserialize;

use machinery::field_path::quote;

/// The fields of an event that the format shows.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LegacyEvent {
    #[serde(rename = "auditID")]
    audit_id: String,
    stage: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    verb: String,
    #[serde(default)]
    user: LegacyUser,
    impersonated_user: Option<LegacyUser>,
    #[serde(default, rename = "sourceIPs")]
    source_ips: Vec<String>,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: ObjectReference,
    response_status: Option<ResponseStatus>,
    request_received_timestamp: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct LegacyUser {
    username: String,
    groups: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ObjectReference {
    namespace: String,
}

#[derive(Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: i32,
}

/// The line of an event, which is a line of JSON.
pub(super) fn line(event: &[u8]) -> Result<String, serde_json::Error> {
    let event: LegacyEvent = serde_json::from_slice(event)?;
    let or = |text: String, absent: &str| if text.is_empty() { absent.to_owned() } else { text };
    let groups = match &*event.user.username {
        "" => String::new(),
        _ => quoted_list(&event.user.groups),
    };
    let (as_user, as_groups) = match event.impersonated_user {
        Some(user) => (user.username, or(quoted_list(&user.groups), "<lookup>")),
        None => ("<self>".to_owned(), "<lookup>".to_owned()),
    };
    let response = event.response_status.map(|it| it.code.to_string());
    Ok(format!(
        "{} AUDIT: id={} stage={} ip={} method={} user={} groups={} as={} asgroups={} user-agent={} namespace={} uri={} response=\"{}\"\n",
        without_trailing_zeros(&event.request_received_timestamp),
        quote(&event.audit_id),
        quote(&event.stage),
        quote(event.source_ips.first().map_or("<unknown>", |it| it)),
        quote(&event.verb),
        quote(&or(event.user.username, "<none>")),
        quote(&or(groups, "<none>")),
        quote(&as_user),
        quote(&as_groups),
        quote(&event.user_agent),
        quote(&or(event.object_ref.namespace, "<none>")),
        quote(&event.request_uri),
        response.as_deref().unwrap_or("<deferred>"),
    ))
}

fn quoted_list(texts: &[String]) -> String {
    texts.iter().map(|it| quote(it)).collect::<Vec<_>>().join(",")
}

/// A time with microseconds as Go writes it in the format `RFC3339Nano`.
fn without_trailing_zeros(time: &str) -> String {
    let time = time.trim_end_matches('Z').trim_end_matches('0');
    match time.strip_suffix('.') {
        Some(seconds) => format!("{seconds}Z"),
        None => format!("{time}Z"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_line_of_text() {
        let event = br#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Request","auditID":"i","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/a/pods?x=\"","verb":"create","user":{"username":"alice","groups":["g","h"]},"impersonatedUser":{"username":"bob"},"sourceIPs":["10.0.0.1","10.0.0.2"],"userAgent":"kubectl","objectRef":{"resource":"pods","namespace":"a"},"responseStatus":{"metadata":{},"code":201},"requestObject":{"a":1},"requestReceivedTimestamp":"2024-05-06T07:08:09.120000Z","stageTimestamp":"2024-05-06T07:08:09.123456Z"}"#;
        assert_eq!(
            line(event).unwrap(),
            "2024-05-06T07:08:09.12Z AUDIT: id=\"i\" stage=\"ResponseComplete\" ip=\"10.0.0.1\" method=\"create\" user=\"alice\" groups=\"\\\"g\\\",\\\"h\\\"\" as=\"bob\" asgroups=\"<lookup>\" user-agent=\"kubectl\" namespace=\"a\" uri=\"/api/v1/namespaces/a/pods?x=\\\"\" response=\"201\"\n"
        );
    }

    #[test]
    fn absent_fields_have_placeholders() {
        let event = br#"{"auditID":"i","stage":"RequestReceived","requestURI":"/version","verb":"get","user":{},"requestReceivedTimestamp":"2024-05-06T07:08:09.000000Z"}"#;
        assert_eq!(
            line(event).unwrap(),
            "2024-05-06T07:08:09Z AUDIT: id=\"i\" stage=\"RequestReceived\" ip=\"<unknown>\" method=\"get\" user=\"<none>\" groups=\"<none>\" as=\"<self>\" asgroups=\"<lookup>\" user-agent=\"\" namespace=\"<none>\" uri=\"/version\" response=\"<deferred>\"\n"
        );
    }
}
