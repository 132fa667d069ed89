//! The records of users: which certificates were issued to whom, in one config map of the cluster.
//!
//! ```text
//! ConfigMap kube-system/sampan-users     labels: app.kubernetes.io/managed-by: sampan
//! data:
//!   jane: {"certificates":[{"authority":"9f:…","ends":"2026-01-31T12:00:00Z","groups":["dev"],"serial":"0a:1b"}],"namespaces":["shop"]}
//!   bob_40example.com: {"certificates":[…],"removed":true}
//! ```
//!
//! A record does not depend on the certificate signing request, which the cluster deletes, nor on
//! role bindings, which are deleted with their namespace. It is in `kube-system`, where only
//! administrators write: a renewal repeats the groups of a record, and its context has the namespace
//! of the roles that a record names. Whoever may bind roles in a namespace can imitate bindings.
//!
//! Certificates are in the order of their issue. Those that have ended are left out, except for the
//! last one. A user without certificates, and a removed one without a valid one, has no record.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use kube_client::Client;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::authorities::Authorities;
use super::bindings::{ATTEMPTS, MANAGED_BY};
use super::input::{parse_group, parse_name, parse_namespace};
use crate::connection::explain;
use crate::kubeconfig::CertificateInfo;
use crate::utc;
use client::json_requests::{MERGE_PATCH, create, get, has_code, patch};
use keel::{Clock, Timestamp};
use machinery::{Value, json};

const COLLECTION: &str = "/api/v1/namespaces/kube-system/configmaps";
const NAME: &str = "sampan-users";

/// The characters of a name that a key of a config map cannot have, and `_`, which replaces `%`.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.');

/// What is known of a user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct UserRecord {
    /// The certificates, in the order of their issue.
    pub certificates: Vec<CertificateInfo>,
    /// The namespaces in which `sampan user add` has given roles.
    pub namespaces: BTreeSet<String>,
    /// Whether `sampan user remove` has taken away the roles.
    pub is_removed: bool,
}

impl UserRecord {
    /// Adds a certificate, unless it is known.
    pub(super) fn add(&mut self, certificate: CertificateInfo) {
        if !self.certificates.iter().any(|it| it.serial == certificate.serial) {
            self.certificates.push(certificate);
        }
    }

    /// The certificates that have not ended.
    pub(super) fn valid(&self, now: Timestamp) -> impl Iterator<Item = &CertificateInfo> {
        self.certificates.iter().filter(move |it| it.ends > now)
    }

    /// Those of them that the cluster accepts.
    pub(super) fn accepted(
        &self,
        now: Timestamp,
        authorities: &Authorities,
    ) -> impl Iterator<Item = &CertificateInfo> {
        self.valid(now).filter(|it| authorities.accept(it))
    }

    /// The last end of a certificate.
    pub(super) fn last_end(&self) -> Option<Timestamp> {
        self.certificates.iter().map(|it| it.ends).max()
    }

    /// Leaves out certificates that have ended, except for the last one.
    fn prune(&mut self, now: Timestamp) {
        let last = self.certificates.last().map(|it| it.serial.clone());
        self.certificates.retain(|it| it.ends > now || Some(&it.serial) == last.as_ref());
    }

    fn is_obsolete(&self, now: Timestamp) -> bool {
        self.certificates.is_empty() || self.is_removed && self.valid(now).next().is_none()
    }

    fn encode(&self) -> String {
        let certificates = self.certificates.iter().map(|it| {
            json!({
                "authority": it.authority, "ends": utc::format(it.ends), "groups": it.groups,
                "serial": it.serial,
            })
        });
        let mut record = json!({"certificates": certificates.collect::<Vec<Value>>()});
        if !self.namespaces.is_empty() {
            record["namespaces"] = json!(self.namespaces);
        }
        if self.is_removed {
            record["removed"] = json!(true);
        }
        record.to_string()
    }

    /// Reads a record. What is not valid, because somebody has edited it, is left out.
    fn decode(user: &str, text: &str) -> Self {
        let record: Value = serde_json::from_str(text).unwrap_or_default();
        let items = record["certificates"].as_array().into_iter().flatten();
        let certificates = items.filter_map(|it| {
            let groups = it["groups"].as_array()?.iter().filter_map(Value::as_str);
            Some(CertificateInfo {
                ends: utc::parse(it["ends"].as_str()?)?,
                groups: groups.filter_map(|it| parse_group(it).ok()).collect(),
                user: user.to_owned(),
                serial: it["serial"].as_str()?.to_owned(),
                authority: it["authority"].as_str().map(str::to_owned),
            })
        });
        let namespaces = record["namespaces"].as_array().into_iter().flatten();
        let namespaces = namespaces.filter_map(|it| parse_namespace(it.as_str()?).ok());
        Self {
            certificates: certificates.collect(),
            namespaces: namespaces.collect(),
            is_removed: record["removed"] == true,
        }
    }
}

/// The records of all users, by name, without those of removed users that have no certificate left.
pub(super) async fn read(client: &Client, now: Timestamp) -> Result<BTreeMap<String, UserRecord>> {
    let found: Option<Value> =
        get(client, &format!("{COLLECTION}/{NAME}")).await.map_err(explain)?;
    let mut records = decode_all(&found.unwrap_or_default());
    records.retain(|_, it| !it.is_obsolete(now));
    Ok(records)
}

fn decode_all(config_map: &Value) -> BTreeMap<String, UserRecord> {
    let entries = config_map["data"].as_object().into_iter().flatten();
    let records = entries.filter_map(|(key, text)| {
        let user = decode_key(key)?;
        let record = UserRecord::decode(&user, text.as_str()?);
        Some((user, record))
    });
    records.collect()
}

/// Changes the record of a user, which is empty at first. If others write at the same time, the
/// change is made again.
pub(super) async fn update(
    client: &Client,
    clock: &Clock,
    user: &str,
    change: impl Fn(&mut UserRecord),
) -> Result<()> {
    let path = format!("{COLLECTION}/{NAME}");
    for _ in 0..ATTEMPTS {
        let now = clock.now();
        let found: Option<Value> = get(client, &path).await.map_err(explain)?;
        let mut records = found.as_ref().map(decode_all).unwrap_or_default();
        let record = records.entry(user.to_owned()).or_default();
        change(record);
        record.prune(now);
        let obsolete = records.iter().filter(|(_, it)| it.is_obsolete(now));
        let mut data: BTreeMap<String, Value> =
            obsolete.map(|(user, _)| (encode_key(user), Value::Null)).collect();
        let key = encode_key(user);
        data.entry(key).or_insert_with(|| json!(records[user].encode()));
        let written = if let Some(found) = &found {
            let version = &found["metadata"]["resourceVersion"];
            let change = json!({"metadata": {"resourceVersion": version}, "data": data});
            patch::<Value>(client, &path, MERGE_PATCH, &change).await
        } else {
            data.retain(|_, it| !it.is_null());
            let config_map = json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": NAME, "labels": {MANAGED_BY.0: MANAGED_BY.1}},
                "data": data,
            });
            create::<Value>(client, COLLECTION, &config_map).await
        };
        match written {
            // Somebody else has created, changed or deleted it.
            Err(error) if has_code(&error, 409) || (found.is_some() && has_code(&error, 404)) => {}
            written => {
                written.map_err(explain)?;
                return Ok(());
            }
        }
    }
    bail!("others change the config map {NAME:?} all the time: run the command again")
}

fn encode_key(user: &str) -> String {
    utf8_percent_encode(user, ENCODED).to_string().replace('%', "_")
}

/// The name of the user of a key; none if it is not one that [`encode_key`] makes.
fn decode_key(key: &str) -> Option<String> {
    let encoded = key.replace('_', "%");
    let user = percent_decode_str(&encoded).decode_utf8().ok()?;
    parse_name(&user).ok().filter(|it| encode_key(it) == key)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use testenv::TestEnv;

    fn certificate(user: &str, serial: &str, ends: Timestamp, groups: &[&str]) -> CertificateInfo {
        CertificateInfo {
            ends,
            groups: groups.iter().map(|it| (*it).to_owned()).collect(),
            user: user.to_owned(),
            serial: serial.to_owned(),
            authority: None,
        }
    }

    #[test]
    fn every_name_of_a_user_has_a_key_of_a_config_map() {
        for user in ["jane", "jane@example.com", "team:ci-1", "R2.D2_x+y", "a_40b", "a-b.c"] {
            let key = encode_key(user);
            let is_allowed = |it: char| it.is_ascii_alphanumeric() || "-._".contains(it);
            assert!(key.chars().all(is_allowed), "{key}");
            assert_eq!(decode_key(&key).as_deref(), Some(user));
        }
        for edited in ["a_", "a_zz", "a_2f", "system_3aadmin", "a_61", "-"] {
            assert_eq!(decode_key(edited), None, "{edited}");
        }
    }

    #[test]
    fn groups_of_kubernetes_itself_are_not_read_from_a_record() {
        let end = "2026-01-31T12:00:00Z";
        let text = format!(
            r#"{{"certificates":[{{"ends":"{end}","groups":["system:masters","dev"],"serial":"1"}},{{}}],"namespaces":["shop","../x",1]}}"#
        );
        let read = UserRecord::decode("jane", &text);
        let certificates = vec![certificate("jane", "1", utc::parse(end).unwrap(), &["dev"])];
        let namespaces = BTreeSet::from(["shop".to_owned()]);
        assert_eq!(read, UserRecord { certificates, namespaces, is_removed: false });
        assert_eq!(UserRecord::decode("jane", &read.encode()), read);
        assert_eq!(UserRecord::decode("jane", "no JSON"), UserRecord::default());
    }

    #[tokio::test]
    async fn a_record_keeps_valid_certificates_and_the_last_one() {
        let (env, clock) = (TestEnv::start().await, Clock::system());
        let (client, now) = (env.kube(), Timestamp::from_seconds(clock.now().seconds()));
        let (past, future) = (now - Duration::from_hours(1), now + Duration::from_hours(1));
        let issued = [
            certificate("a@b", "1", past, &[]),
            certificate("a@b", "2", future, &["dev"]),
            certificate("a@b", "3", past, &["ops"]),
        ];
        let add_all = |it: &mut UserRecord| issued.iter().cloned().for_each(|new| it.add(new));
        update(&client, &clock, "a@b", add_all).await.unwrap();
        let records = read(&client, now).await.unwrap();
        assert_eq!(records["a@b"].certificates, issued[1..]);
        assert_eq!(records["a@b"].valid(now).count(), 1);

        update(&client, &clock, "a@b", |it| it.is_removed = true).await.unwrap();
        assert!(read(&client, now).await.unwrap().contains_key("a@b"), "one is valid");
        let later = now + Duration::from_hours(2);
        assert!(read(&client, later).await.unwrap().is_empty(), "all have ended");
    }

    #[tokio::test]
    async fn records_of_removed_users_without_a_certificate_are_deleted_at_the_next_change() {
        let (env, clock) = (TestEnv::start().await, Clock::system());
        let client = env.kube();
        let past = clock.now() - Duration::from_hours(1);
        for name in ["bob", "jane"] {
            update(&client, &clock, name, |it| it.add(certificate(name, "1", past, &[])))
                .await
                .unwrap();
        }
        update(&client, &clock, "bob", |it| it.is_removed = true).await.unwrap();
        let stored: Value = get(&client, &format!("{COLLECTION}/{NAME}")).await.unwrap().unwrap();
        let keys: Vec<&String> = stored["data"].as_object().unwrap().keys().collect();
        assert_eq!(keys, ["jane"]);
    }
}
