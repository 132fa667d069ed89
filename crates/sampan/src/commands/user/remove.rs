//! `sampan user remove`: takes away the roles of a user. A certificate cannot be revoked: the command
//! says how many remain, and what they can still be used for.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};

use super::bindings::{self, Binding};
use super::certificate;
use super::input::parse_name;
use super::roles::nearest;
use crate::connection::{Connection, ConnectionArgs};
use crate::kubeconfig::{CertificateInfo, RemovedPerson, context_name, people, remove_person};
use crate::output::{print_line, print_note};
use crate::utc;
use keel::Clock;

const EXAMPLES: &str = "Examples:
  sampan user remove jane

Kubernetes cannot revoke certificates: one that was issued authenticates its user until it ends, with
the rights of its groups and of the bindings that `sampan user add` has not made.";

/// What has failed if the user of the command lacks a right.
const NEEDED_RIGHTS: &str = "cannot remove the user: it takes the rights to list and delete role bindings, which the \
     ClusterRole cluster-admin has";

/// Take away the roles of a user, and its context in the kubeconfig
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RemoveArgs {
    /// Name of the user
    #[arg(value_name = "NAME", value_parser = parse_name)]
    name: String,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Runs the command.
pub(super) async fn run(args: RemoveArgs, clock: &Clock) -> Result<()> {
    let connection = args.connection.connect(clock).await?;
    let (client, name) = (&connection.client, args.name.as_str());
    let all = bindings::managed(client).await.context(NEEDED_RIGHTS)?;
    let certificates = certificates(&connection).await?;
    check_known(name, &all, &certificates)?;
    let own: Vec<&Binding> = all.iter().filter(|it| it.user == name).collect();
    for binding in &own {
        bindings::revoke(client, binding).await.context(NEEDED_RIGHTS)?;
        print_line(&format!("{} removed from {}", quoted(name), binding.describe()))?;
    }
    certificate::remove_all(client, name, None).await?;
    let removed = remove_person(&connection.path, name, &connection.cluster_name)?;
    report_context(&removed, name, &connection)?;
    let of_bindings = own.iter().flat_map(|it| &it.certificates);
    let remaining: BTreeSet<&CertificateInfo> = of_bindings
        .chain(certificates.iter().filter(|it| it.user == name))
        .filter(|it| it.ends > clock.now())
        .collect();
    let Some(last) = remaining.last() else { return Ok(()) };
    let groups = remaining.iter().flat_map(|it| &it.groups).collect();
    let end = utc::format(last.ends);
    let remaining = match remaining.len() {
        1 => "1 certificate remains".to_owned(),
        count => format!("{count} certificates remain"),
    };
    print_note(&format!(
        "{remaining} valid until {end}, since Kubernetes cannot revoke certificates"
    ));
    report_rights(client, name, &groups).await
}

/// The certificates of all users that the kubeconfig or the cluster has.
async fn certificates(connection: &Connection) -> Result<Vec<CertificateInfo>> {
    let mut all = certificate::recent(&connection.client).await?;
    all.extend(people(&connection.path, &connection.cluster_name)?);
    Ok(all)
}

fn check_known(name: &str, bindings: &[Binding], certificates: &[CertificateInfo]) -> Result<()> {
    let known = bindings.iter().map(|it| it.user.clone());
    let known: Vec<String> = known.chain(certificates.iter().map(|it| it.user.clone())).collect();
    if known.iter().any(|it| it == name) {
        return Ok(());
    }
    let suggestion = nearest(name, &known).map(|it| format!("; did you mean {it:?}?"));
    bail!(
        "there is no user {name:?} that `sampan user add` has made{}",
        suggestion.unwrap_or_default()
    )
}

fn report_context(removed: &RemovedPerson, name: &str, connection: &Connection) -> Result<()> {
    let context = context_name(name, &connection.cluster_name);
    if removed.was_there {
        print_line(&format!("context {context:?} removed from {}", connection.path.display()))?;
    }
    if removed.was_current {
        print_note("it was the current context; to choose another: kubectl config use-context");
    }
    Ok(())
}

/// Says which rights the remaining certificates have.
async fn report_rights(
    client: &kube_client::Client,
    name: &str,
    groups: &BTreeSet<&String>,
) -> Result<()> {
    let others = bindings::unmanaged(client, name).await?;
    for binding in &others {
        let role = &binding.role;
        print_note(&format!(
            "{} still gives {} the {} {:?}: `sampan user add` has not made it",
            binding.describe(),
            quoted(name),
            role.kind,
            role.name
        ));
    }
    if !groups.is_empty() {
        let groups: Vec<&str> = groups.iter().map(|it| it.as_str()).collect();
        print_note(&format!(
            "a certificate has the rights of the groups {}, whose bindings stay",
            groups.join(", ")
        ));
    }
    if others.is_empty() && groups.is_empty() {
        print_note(
            "no binding names the user any more: a certificate has the rights of every user",
        );
    }
    Ok(())
}

fn quoted(name: &str) -> String {
    format!("user {name:?}")
}
