//! [`issue`]: a key that is made here, and a certificate that the cluster signs for it.
//!
//! The request is approved with the rights of the user of the command. The key is not part of any
//! request.

use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use base64::prelude::{BASE64_STANDARD, Engine};
use kube_client::Client;

use super::bindings::{MANAGED_BY, USER};
use crate::connection::explain;
use crate::kubeconfig::CertificateInfo;
use crate::output::print_note;
use client::json_requests::{create, delete, get, none_if_missing, replace};
use keel::Clock;
use machinery::{Value, json};
use tls::ClientRequest;

const PATH: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// The interval at which the request is read until it has a certificate.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// By how much a certificate may end earlier than asked for: signers let it begin some minutes ago.
const TOLERANCE: Duration = Duration::from_mins(6);

/// The time after which the command says that it waits.
const SILENT_WAIT: Duration = Duration::from_secs(1);

/// The time after that until it names the possible cause.
const UNEXPLAINED_WAIT: Duration = Duration::from_secs(2);

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
    /// Whether the certificate ends earlier than asked for.
    pub is_shortened: bool,
}

/// Makes a key and has the cluster sign a certificate for it. The request is removed at the end;
/// `request_name` is set while it exists, for a command that is interrupted.
pub(super) async fn issue(
    client: &Client,
    clock: &Clock,
    wanted: &Wanted<'_>,
    request_name: &OnceLock<String>,
) -> Result<Issued> {
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
    let name = request_name.get_or_init(|| name);
    let asked = clock.now();
    let finished = finish(client, clock, created, name, wanted).await;
    // The certificate, or the error of the signer, counts more than a request that stays.
    if let Err(error) = remove(client, name).await {
        print_note(&format!(
            "the certificate signing request {name} was not removed: {error}; the cluster deletes it \
             after an hour, or somebody who may: kubectl delete csr {name}"
        ));
    }
    let (certificate, info) = finished?;
    let is_shortened = info.ends + TOLERANCE < asked + wanted.ttl;
    Ok(Issued { key: made.key, certificate, info, is_shortened })
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
    let waiting = with_notes(clock, wanted.timeout, waiting);
    let certificate = match tokio::time::timeout(wanted.timeout, waiting).await {
        Ok(certificate) => certificate?,
        Err(_) => bail!(
            "there is no certificate after {:?}: {}, and --timeout waits longer",
            wanted.timeout,
            cause()
        ),
    };
    let info = CertificateInfo::read(&certificate)
        .filter(|it| it.user == wanted.name)
        .context("the certificate of the signer is not one for this user")?;
    Ok((certificate, info))
}

/// Why there is no certificate.
fn cause() -> String {
    format!(
        "the cluster has no signer for {SIGNER}, or it is slow; a plane signs with the controller \
         certificatesigningrequest-signing (`sampan up --controllers`)"
    )
}

/// Waits for a result, and says so if that takes more than a moment.
async fn with_notes<T>(clock: &Clock, timeout: Duration, waiting: impl Future<Output = T>) -> T {
    let notes = async {
        clock.sleep(SILENT_WAIT).await;
        print_note(&format!("waiting for the certificate (up to {timeout:?})"));
        clock.sleep(UNEXPLAINED_WAIT).await;
        let waited = SILENT_WAIT + UNEXPLAINED_WAIT;
        print_note(&format!("there is no certificate after {waited:?}: {}", cause()));
        std::future::pending().await
    };
    tokio::select! {
        done = waiting => done,
        never = notes => never,
    }
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

/// Removes a request, if it exists.
pub(super) async fn remove(client: &Client, name: &str) -> Result<()> {
    let deleted = delete::<Value>(client, &format!("{PATH}/{name}"), &json!({})).await;
    none_if_missing(deleted).map(drop).map_err(explain)
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
        let name = OnceLock::new();
        let (issued, ()) =
            tokio::join!(issue(&client, &clock, &wanted, &name), sign_for_bob(&client, &clock));
        let error = issued.err().map(|it| it.to_string()).unwrap_or_default();
        assert_eq!(error, "the certificate of the signer is not one for this user");
        let list: Value = get(&client, PATH).await.unwrap().unwrap();
        assert_eq!(list["items"], json!([]));
    }
}
