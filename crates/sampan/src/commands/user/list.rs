//! `sampan user list`: the users that `sampan user add` has made, by their records and bindings, and
//! those who have a context in the kubeconfig.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::authorities::Authorities;
use super::bindings::{self, Binding};
use super::records::{self, UserRecord};
use crate::connection::{Connection, ConnectionArgs, with_rights};
use crate::kubeconfig::{CertificateInfo, context_name, people};
use crate::output::{print, print_note};
use crate::table::aligned;
use crate::utc;
use keel::{Clock, Timestamp};

const EXAMPLES: &str = "Examples:
  sampan user list
  sampan user list --context staging";

/// What has failed if the user of the command lacks a right.
const NEEDED_RIGHTS: &str = "cannot list users: it takes the rights to list role bindings and to read the config map \
     sampan-users in kube-system, which the ClusterRole cluster-admin has";

/// List users, their roles and the end of their certificates
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ListArgs {
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Runs the command.
pub(super) async fn run(args: ListArgs, clock: &Clock) -> Result<()> {
    let listed = args.connection.run(clock, async |connection| list(connection, clock.now()).await);
    listed.await.map_err(|error| with_rights(error, NEEDED_RIGHTS))
}

async fn list(connection: &Connection, now: Timestamp) -> Result<()> {
    let client = &connection.client;
    let mut bindings = bindings::managed(client).await?;
    let mut users = records::read(client, now).await?;
    for binding in &bindings {
        users.entry(binding.user.clone()).or_default();
    }
    let in_contexts = people(&connection.path, &connection.cluster_name)?;
    for certificate in &in_contexts {
        users.entry(certificate.user.clone()).or_default().add(certificate.clone());
    }
    if users.is_empty() {
        print_note("there are no users; to add one: sampan user add NAME --role view");
        return Ok(());
    }
    bindings.sort_by(|a, b| (&a.namespace, &a.role.name).cmp(&(&b.namespace, &b.role.name)));
    let validity = Validity { now, authorities: Authorities::of(connection).await };
    print(aligned(&rows(&users, &bindings, &validity)).as_bytes())?;
    report_contexts(connection, &users, &in_contexts, &validity);
    Ok(())
}

/// Which certificates are valid.
struct Validity {
    now: Timestamp,
    authorities: Authorities,
}

impl Validity {
    fn valid<'a>(&'a self, user: &'a UserRecord) -> impl Iterator<Item = &'a CertificateInfo> {
        user.accepted(self.now, &self.authorities)
    }

    /// The last end of a valid certificate.
    fn end(&self, user: &UserRecord) -> Option<Timestamp> {
        self.valid(user).map(|it| it.ends).max()
    }
}

/// The table: a line for each role of a user.
fn rows(
    users: &BTreeMap<String, UserRecord>,
    bindings: &[Binding],
    validity: &Validity,
) -> Vec<Vec<String>> {
    let title = ["NAME", "GROUPS", "ROLE", "NAMESPACE", "CERTIFICATES", "EXPIRES"];
    let mut rows = vec![title.map(str::to_owned).to_vec()];
    for (name, user) in users {
        let valid = validity.valid(user).count().to_string();
        let groups = match groups(user, validity).join(",") {
            none if none.is_empty() => "<none>".to_owned(),
            groups => groups,
        };
        let expires = match (validity.end(user), user.last_end()) {
            (Some(end), _) => utc::format(end),
            (None, Some(end)) if end <= validity.now => format!("{} (expired)", utc::format(end)),
            (None, Some(end)) => format!("{} (not accepted)", utc::format(end)),
            (None, None) => "<unknown>".to_owned(),
        };
        let row = |role: &str, namespace: &str| {
            [name, &groups, role, namespace, &valid, &expires].map(str::to_owned).to_vec()
        };
        let own: Vec<_> = bindings.iter().filter(|it| it.user == *name).collect();
        if own.is_empty() {
            rows.push(row(if user.is_removed { "<removed>" } else { "<none>" }, "<none>"));
        }
        for binding in own {
            let role = binding.role.to_argument();
            rows.push(row(&role, binding.namespace.as_deref().unwrap_or("<all>")));
        }
    }
    rows
}

/// The groups of all valid certificates of a user, or those of the last one.
fn groups<'a>(user: &'a UserRecord, validity: &'a Validity) -> Vec<&'a str> {
    let valid: BTreeSet<&str> =
        validity.valid(user).flat_map(|it| &it.groups).map(String::as_str).collect();
    if validity.valid(user).next().is_some() {
        return valid.into_iter().collect();
    }
    let last = user.certificates.last();
    last.into_iter().flat_map(|it| &it.groups).map(String::as_str).collect()
}

/// Names the contexts whose certificate is not accepted, or not the one that ends last.
fn report_contexts(
    connection: &Connection,
    users: &BTreeMap<String, UserRecord>,
    in_contexts: &[CertificateInfo],
    validity: &Validity,
) {
    for certificate in in_contexts {
        let CertificateInfo { user, ends, .. } = certificate;
        let context = context_name(user, &connection.cluster_name);
        if !validity.authorities.accept(certificate) {
            print_note(&format!(
                "the cluster does not accept the certificate of the context {context:?}, which is of \
                 another authority; to renew it: sampan user add {user}; to remove the context: \
                 sampan user remove {user}"
            ));
        } else if users.get(user).and_then(|it| validity.end(it)).is_some_and(|it| it != *ends) {
            let end = utc::format(*ends);
            print_note(&format!("the certificate of the context {context:?} ends at {end}"));
        }
    }
}
