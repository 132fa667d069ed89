//! `sampan user list`: the users that `sampan user add` has made, by their bindings, and those who
//! have a context in the kubeconfig, or a request for a certificate that still exists.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::{bindings, certificate};
use crate::connection::ConnectionArgs;
use crate::kubeconfig::{CertificateInfo, people};
use crate::output::{print, print_note};
use crate::table::aligned;
use crate::utc;
use keel::Clock;

const EXAMPLES: &str = "Examples:
  sampan user list
  sampan user list --context staging";

/// List users, their roles and the end of their certificates
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ListArgs {
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Runs the command.
pub(super) async fn run(args: ListArgs, clock: &Clock) -> Result<()> {
    let connection = args.connection.connect(clock).await?;
    let client = &connection.client;
    let mut bindings = bindings::managed(client)
        .await
        .context("cannot list users: it takes the right to list role bindings")?;
    // The last certificate of each user; none if its annotation was removed.
    let mut persons: BTreeMap<String, Option<CertificateInfo>> = BTreeMap::new();
    for binding in &bindings {
        let last = binding.certificates.iter().max().cloned();
        let known = persons.entry(binding.user.clone()).or_default();
        *known = last.max(known.take());
    }
    let recent = certificate::recent(client).await?;
    for found in recent.into_iter().chain(people(&connection.path, &connection.cluster_name)?) {
        let known = persons.entry(found.user.clone()).or_default();
        *known = Some(found).max(known.take());
    }
    if persons.is_empty() {
        print_note("there are no users; to add one: sampan user add NAME --role view");
        return Ok(());
    }
    bindings.sort_by(|a, b| (&a.namespace, &a.role.name).cmp(&(&b.namespace, &b.role.name)));
    let mut rows =
        vec![["NAME", "GROUPS", "ROLE", "NAMESPACE", "EXPIRES"].map(str::to_owned).to_vec()];
    for (name, last) in &persons {
        let groups = last.as_ref().map(|it| it.groups.join(",")).filter(|it| !it.is_empty());
        let groups = groups.as_deref().unwrap_or("<none>");
        let expires = match last.as_ref().map(|it| it.ends) {
            Some(end) if end <= clock.now() => format!("{} (expired)", utc::format(end)),
            Some(end) => utc::format(end),
            None => "<unknown>".to_owned(),
        };
        let row = |role: &str, namespace: &str| {
            [name, groups, role, namespace, &expires].map(str::to_owned).to_vec()
        };
        let own: Vec<_> = bindings.iter().filter(|it| it.user == *name).collect();
        if own.is_empty() {
            rows.push(row("<none>", "<none>"));
        }
        for binding in own {
            let role = match binding.role.kind.as_str() {
                "Role" => format!("Role/{}", binding.role.name),
                _ => binding.role.name.clone(),
            };
            rows.push(row(&role, binding.namespace.as_deref().unwrap_or("<all>")));
        }
    }
    print(aligned(&rows).as_bytes())
}
