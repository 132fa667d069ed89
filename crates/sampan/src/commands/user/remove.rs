//! `sampan user remove`: takes away the roles of a user. A certificate cannot be revoked: the command
//! says how many remain, and what they can still be used for.

use std::collections::BTreeSet;

use anyhow::{Result, bail};

use super::authorities::Authorities;
use super::bindings::{self, Binding};
use super::input::{parse_name, parse_namespace};
use super::records;
use super::roles::nearest;
use crate::connection::{Connection, ConnectionArgs, who_am_i, with_rights};
use crate::kubeconfig::{RemovedPerson, context_name, people, remove_person};
use crate::output::{print_line, print_note};
use crate::utc;
use keel::Clock;

const EXAMPLES: &str = "Examples:
  sampan user remove jane
  sampan user remove jane --namespace shop    takes away the role there, and nothing else

Kubernetes cannot revoke certificates: one that was issued authenticates its user
until it ends, with the rights of its groups and of the bindings that
`sampan user add` has not made.";

/// What has failed if the user of the command lacks a right.
const NEEDED_RIGHTS: &str = "cannot remove the user: it takes the rights to list and delete role bindings and to write the \
     config map sampan-users in kube-system, which the ClusterRole cluster-admin has";

/// Take away the roles of a user, and its context in the kubeconfig
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RemoveArgs {
    /// Name of the user
    #[arg(value_name = "NAME", value_parser = parse_name)]
    name: String,
    /// Take away only the role in this namespace; the certificates, the context and the other roles stay
    #[arg(long, short, value_name = "NAMESPACE", value_parser = parse_namespace)]
    namespace: Option<String>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Runs the command.
pub(super) async fn run(args: RemoveArgs, clock: &Clock) -> Result<()> {
    let name = args.name.as_str();
    let removed = args.connection.run(clock, async |connection| match &args.namespace {
        Some(namespace) => remove_role(connection, clock, name, namespace).await,
        None => remove(connection, clock, name).await,
    });
    removed.await.map_err(|error| with_rights(error, NEEDED_RIGHTS))
}

/// Takes away the roles of a user in one namespace.
async fn remove_role(
    connection: &Connection,
    clock: &Clock,
    name: &str,
    namespace: &str,
) -> Result<()> {
    let client = &connection.client;
    let all = bindings::managed(client).await?;
    let (here, elsewhere): (Vec<&Binding>, Vec<&Binding>) = all
        .iter()
        .filter(|it| it.user == name)
        .partition(|it| it.namespace.as_deref() == Some(namespace));
    if here.is_empty() {
        bail!(
            "{} has no role in namespace {namespace:?} that `sampan user add` has given: `sampan user \
             list` shows the roles",
            quoted(name)
        );
    }
    for binding in here {
        bindings::revoke(client, binding).await?;
        print_line(&format!("{} removed from {}", quoted(name), binding.describe()))?;
    }
    let records = records::read(client, clock.now()).await?;
    if records.get(name).is_some_and(|it| it.namespaces.contains(namespace)) {
        records::update(client, clock, name, |stored| {
            stored.namespaces.remove(namespace);
        })
        .await?;
    }
    for binding in &elsewhere {
        print_note(&format!("{} stays in {}", quoted(name), binding.describe()));
    }
    if elsewhere.is_empty() {
        print_note(&format!(
            "the user has no role any more; to remove its context as well: sampan user remove {name}"
        ));
    }
    Ok(())
}

async fn remove(connection: &Connection, clock: &Clock, name: &str) -> Result<()> {
    let client = &connection.client;
    let all = bindings::managed(client).await?;
    let mut records = records::read(client, clock.now()).await?;
    let in_contexts = people(&connection.path, &connection.cluster_name)?;
    let known = all.iter().map(|it| &it.user).chain(records.keys());
    let known: Vec<String> = known.chain(in_contexts.iter().map(|it| &it.user)).cloned().collect();
    check_known(name, &known)?;
    check_not_oneself(connection, name).await?;
    let mut record = records.remove(name).unwrap_or_default();
    in_contexts.into_iter().filter(|it| it.user == name).for_each(|it| record.add(it));
    let was_removed = record.is_removed;
    let own: Vec<&Binding> = all.iter().filter(|it| it.user == name).collect();
    for binding in &own {
        bindings::revoke(client, binding).await?;
        print_line(&format!("{} removed from {}", quoted(name), binding.describe()))?;
    }
    // The record says how many certificates remain, if the user is added again.
    records::update(client, clock, name, |stored| {
        stored.is_removed = true;
        stored.namespaces.clear();
        record.certificates.iter().cloned().for_each(|it| stored.add(it));
    })
    .await?;
    let removed = remove_person(&connection.path, name, &connection.cluster_name)?;
    report_context(&removed, name, connection)?;
    if was_removed && own.is_empty() && !removed.was_there {
        print_line(&format!("{} was removed before", quoted(name)))?;
    }
    let authorities = Authorities::of(connection).await;
    let valid: Vec<_> = record.accepted(clock.now(), &authorities).collect();
    let Some(last) = valid.iter().map(|it| it.ends).max() else { return Ok(()) };
    let groups = valid.iter().flat_map(|it| &it.groups).collect();
    let end = utc::format(last);
    let remaining = match valid.len() {
        1 => "1 certificate remains".to_owned(),
        count => format!("{count} certificates remain"),
    };
    print_note(&format!(
        "{remaining} valid until {end}, since Kubernetes cannot revoke certificates"
    ));
    report_rights(client, name, &groups).await
}

fn check_known(name: &str, known: &[String]) -> Result<()> {
    if known.iter().any(|it| it == name) {
        return Ok(());
    }
    let suggestion = nearest(name, known).map(|it| format!("; did you mean {it:?}?"));
    bail!(
        "there is no user {name:?} that `sampan user add` has made{}",
        suggestion.unwrap_or_default()
    )
}

/// Whoever removes himself loses the rights that the rest of the removal takes.
async fn check_not_oneself(connection: &Connection, name: &str) -> Result<()> {
    // Without the review, the server does not say who the user is.
    let Ok(user) = who_am_i(&connection.client).await else { return Ok(()) };
    if user["username"] != *name {
        return Ok(());
    }
    let context = &connection.context;
    let others = match connection.other_contexts.join(", ") {
        none if none.is_empty() => String::new(),
        others => format!(" (the kubeconfig has {others})"),
    };
    bail!(
        "you are the user {name:?} of the context {context:?}, and nothing was removed: name the \
         context of another administrator with --context{others}"
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
            "its certificates have the rights of the groups {}, whose bindings stay",
            groups.join(", ")
        ));
    }
    if others.is_empty() && groups.is_empty() {
        print_note(
            "no binding names the user any more: its certificates have only the rights that every \
             authenticated user has",
        );
    }
    Ok(())
}

fn quoted(name: &str) -> String {
    format!("user {name:?}")
}
