//! [`issue`]: a key that is made here, and a certificate that the cluster signs for it.
//!
//! The request is approved with the rights of the user of the command. The key is not part of any
//! request.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use base64::prelude::{BASE64_STANDARD, Engine};
use kube_client::Client;

use super::bindings::{MANAGED_BY, SELECTOR, USER};
use crate::connection::explain;
use crate::kubeconfig::CertificateInfo;
use client::json_requests::{create, delete, get, has_code, none_if_missing, replace};
use keel::Clock;
use machinery::{Value, json};
use tls::ClientRequest;

const PATH: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// The interval at which the request is read until it has a certificate.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// What is asked for.
pub(super) struct Wanted<'a> {
    /// The user's name.
    pub name: &'a str,
    /// The user's groups.
    pub groups: &'a [String],
    /// The lifetime, which the signer may shorten.
    pub ttl: Duration,
    /// The time to wait for the signer.
    pub timeout: Duration,
}

/// A certificate and its key, both in PEM.
pub(super) struct Issued {
    /// The private key.
    pub key: String,
    /// The certificate.
    pub certificate: String,
    /// What the certificate says.
    pub info: CertificateInfo,
    /// The name of the request.
    pub request_name: String,
}

/// Makes a key and has the cluster sign a certificate for it. Without a certificate, no request is
/// left behind.
pub(super) async fn issue(client: &Client, clock: &Clock, wanted: &Wanted<'_>) -> Result<Issued> {
    let groups: Vec<&str> = wanted.groups.iter().map(String::as_str).collect();
    let made = ClientRequest::new(wanted.name, &groups).context("cannot make a key")?;
    let request = json!({
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {
            "generateName": "sampan-user-",
            "labels": {MANAGED_BY.0: MANAGED_BY.1},
            "annotations": {USER: wanted.name},
        },
        "spec": {
            "request": BASE64_STANDARD.encode(&made.request),
            "signerName": SIGNER,
            "expirationSeconds": wanted.ttl.as_secs(),
            "usages": ["digital signature", "client auth"],
        },
    });
    let created: Value = create(client, PATH, &request).await.map_err(explain)?;
    let name = created["metadata"]["name"].as_str().context("the request has no name")?.to_owned();
    match finish(client, clock, created, &name, wanted).await {
        Ok((certificate, info)) => {
            Ok(Issued { key: made.key, certificate, info, request_name: name })
        }
        Err(error) => {
            // The first error is the one that helps.
            let _ = remove(client, &name).await;
            Err(error)
        }
    }
}

/// Approves the request, waits for the certificate and reads it.
async fn finish(
    client: &Client,
    clock: &Clock,
    mut request: Value,
    name: &str,
    wanted: &Wanted<'_>,
) -> Result<(String, CertificateInfo)> {
    request["status"]["conditions"] = json!([{
        "type": "Approved",
        "status": "True",
        "reason": "SampanUserAdd",
        "message": "This request was approved by sampan user add.",
    }]);
    let path = format!("{PATH}/{name}");
    let approved: Value =
        replace(client, &format!("{path}/approval"), &request).await.map_err(explain)?;
    let waiting = wait_for_certificate(client, clock, &path, approved);
    let certificate = match tokio::time::timeout(wanted.timeout, waiting).await {
        Ok(certificate) => certificate?,
        Err(_) => bail!(
            "there is no certificate after {:?}: the cluster has no signer for {SIGNER}, or it is \
             slow; a plane signs with the controller certificatesigningrequest-signing \
             (`sampan up --controllers`), and --timeout waits longer",
            wanted.timeout
        ),
    };
    let info = CertificateInfo::read(&certificate)
        .filter(|it| it.user == wanted.name)
        .context("the certificate of the signer is not one for this user")?;
    Ok((certificate, info))
}

async fn wait_for_certificate(
    client: &Client,
    clock: &Clock,
    path: &str,
    mut request: Value,
) -> Result<String> {
    loop {
        let conditions = request["status"]["conditions"].as_array().into_iter().flatten();
        for condition in conditions {
            if matches!(condition["type"].as_str(), Some("Denied" | "Failed")) {
                let message = condition["message"].as_str().unwrap_or_default();
                bail!("the signer has refused the request: {message}");
            }
        }
        if let Some(data) = request["status"]["certificate"].as_str() {
            let decoded = BASE64_STANDARD.decode(data).context("the certificate is not base64")?;
            return String::from_utf8(decoded).context("the certificate is not PEM");
        }
        clock.sleep(POLL_INTERVAL).await;
        let read: Option<Value> = get(client, path).await.map_err(explain)?;
        request = read.ok_or_else(|| anyhow!("somebody has deleted the request"))?;
    }
}

/// Removes the requests of a user, except one, and returns their number.
pub(super) async fn remove_all(client: &Client, user: &str, except: Option<&str>) -> Result<usize> {
    let listed: Option<Value> =
        get(client, &format!("{PATH}?labelSelector={SELECTOR}")).await.map_err(explain)?;
    let mut removed = 0;
    for item in listed.iter().filter_map(|it| it["items"].as_array()).flatten() {
        let Some(name) = item["metadata"]["name"].as_str() else { continue };
        if item["metadata"]["annotations"][USER] == *user && Some(name) != except {
            removed += usize::from(remove(client, name).await?);
        }
    }
    Ok(removed)
}

/// Removes a request, if it exists and the user of the command may.
pub(super) async fn remove(client: &Client, name: &str) -> Result<bool> {
    match delete::<Value>(client, &format!("{PATH}/{name}"), &json!({})).await {
        Err(error) if has_code(&error, 403) => Ok(false),
        deleted => Ok(none_if_missing(deleted).map_err(explain)?.is_some()),
    }
}

/// The certificates in the requests of users, which a cluster keeps for about an hour.
pub(super) async fn recent(client: &Client) -> Result<Vec<CertificateInfo>> {
    let path = format!("{PATH}?labelSelector={SELECTOR}");
    let listed: Option<Value> = match get(client, &path).await {
        Err(error) if has_code(&error, 403) => None,
        listed => listed.map_err(explain)?,
    };
    let items = listed.iter().filter_map(|it| it["items"].as_array()).flatten();
    let certificates = items.filter_map(|item| {
        let data = item["status"]["certificate"].as_str()?;
        let decoded = String::from_utf8(BASE64_STANDARD.decode(data).ok()?).ok()?;
        let info = CertificateInfo::read(&decoded)?;
        (item["metadata"]["annotations"][USER] == *info.user).then_some(info)
    });
    Ok(certificates.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::json_requests::{MERGE_PATCH, patch};
    use testenv::TestEnv;
    use tls::Authority;

    /// Signs the first request that appears with a certificate of another user.
    async fn sign_for_bob(client: &Client, clock: &Clock) {
        let now = clock.now();
        let authority = Authority::new("ca", now, Duration::from_hours(24)).unwrap();
        let bob = authority.client("bob", &[], now, Duration::from_hours(1)).unwrap();
        let name = loop {
            let list: Value = get(client, PATH).await.unwrap().unwrap();
            if let Some(name) = list["items"][0]["metadata"]["name"].as_str() {
                break name.to_owned();
            }
            tokio::task::yield_now().await;
        };
        let change = json!({"status": {"certificate": BASE64_STANDARD.encode(bob.certificate)}});
        let path = format!("{PATH}/{name}/status");
        patch::<Value>(client, &path, MERGE_PATCH, &change).await.unwrap();
    }

    #[tokio::test]
    async fn a_request_with_a_certificate_of_somebody_else_is_removed() {
        let (env, clock) = (TestEnv::start().await, Clock::system());
        let client = env.kube();
        let (ttl, timeout) = (Duration::from_hours(1), Duration::from_mins(1));
        let wanted = Wanted { name: "jane", groups: &[], ttl, timeout };
        let (issued, ()) =
            tokio::join!(issue(&client, &clock, &wanted), sign_for_bob(&client, &clock));
        let error = issued.err().map(|it| it.to_string()).unwrap_or_default();
        assert_eq!(error, "the certificate of the signer is not one for this user");
        let list: Value = get(&client, PATH).await.unwrap().unwrap();
        assert_eq!(list["items"], json!([]));
    }
}
