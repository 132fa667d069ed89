//! `sampan user add`: a certificate, a role and a context for a user. Adding a user again renews the
//! certificate and replaces the role in the same place.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube_client::Client;
use tokio::time::timeout;

use super::authorities::{Authorities, cluster_entry};
use super::bindings::{self, Binding};
use super::certificate::{self, Issued, Wanted};
use super::input::{parse_group, parse_name, parse_namespace, parse_timeout, parse_ttl};
use super::records::{self, UserRecord};
use super::rights;
use super::roles::{self, Role};
use crate::connection::{Connection, ConnectionArgs, explain, with_rights};
use crate::kubeconfig::{
    self, AddedPerson, CertificateInfo, CurrentContext, Namespace, OutputError, PersonEntry,
    add_person, check_person, context_name, people,
};
use crate::output::{print_line, print_note};
use crate::stop_signals::StopSignals;
use crate::utc;
use client::json_requests::{get, has_code};
use keel::Clock;
use machinery::Value;

const EXAMPLES: &str = "Examples:
  sampan user add jane --role view --namespace shop
  sampan user add jane --ttl 7d               renews the certificate and keeps the role
  sampan user add ci --role edit --namespace shop --output ci.kubeconfig
  sampan user add bob --group developers --role Role/deployer --namespace shop

It needs the rights of cluster-admin, or those of the role in docs/users.md, which
has no others. The private key is made on this machine and does not leave it.";

/// What has failed if the user of the command lacks a right that is not asked about before.
const NEEDED_RIGHTS: &str =
    "cannot add the user: a right is missing, which the ClusterRole cluster-admin has";

/// The time for removing the request of a command that is interrupted.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(5);

/// Give a user a certificate, a role and a context in a kubeconfig, or renew them
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct AddArgs {
    /// Name of the user
    #[arg(value_name = "NAME", value_parser = parse_name)]
    name: String,
    /// Group of the user; repeat it for each group [default: those of the user's last certificate]
    #[arg(long = "group", value_name = "GROUP", value_parser = parse_group)]
    groups: Vec<String>,
    /// Role of the user: view, edit, admin, cluster-admin, or any other `ClusterRole`, or a `Role` of
    /// the namespace (`Role/NAME` if a `ClusterRole` has the same name). It replaces the role that the
    /// user has there
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Namespace in which the role applies [default: all of them]
    #[arg(long, short, value_name = "NAMESPACE", value_parser = parse_namespace)]
    namespace: Option<String>,
    /// Lifetime of the certificate, as in `24h`, `1h30m` or `7d`; at least 10 minutes. The cluster may
    /// shorten it
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "24h",
        value_parser = parse_ttl,
        allow_hyphen_values = true
    )]
    ttl: Duration,
    /// Write the context to this file, with everything that another machine needs, and not to the
    /// kubeconfig of the command. An existing kubeconfig keeps its other contexts and its current one
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Make the new context the current one
    #[arg(long)]
    use_context: bool,
    /// Time to wait for the certificate
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_timeout)]
    timeout: Duration,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Runs the command.
pub(super) async fn run(args: AddArgs, clock: &Clock) -> Result<()> {
    if let Some(output) = &args.output {
        check_output(output)?;
    }
    let mut signals = StopSignals::listen()?;
    let request_name = OnceLock::new();
    let added = args.connection.run(clock, async |connection| {
        tokio::select! {
            added = add(&args, connection, clock, &request_name) => {
                added.map_err(|error| with_rights(error, NEEDED_RIGHTS))
            }
            () = signals.recv() => interrupted(connection, request_name.get()).await,
        }
    });
    added.await
}

fn check_output(output: &Path) -> Result<()> {
    if output == Path::new("-") {
        bail!("the private key is not printed: name a file with --output");
    }
    match output.parent() {
        Some(parent) if parent != Path::new("") && !parent.is_dir() => bail!(
            "there is no directory {}: make it, or name another file with --output",
            parent.display()
        ),
        _ => Ok(()),
    }
}

/// Removes the request of a command that is interrupted, if it has made one.
async fn interrupted(connection: &Connection, request_name: Option<&String>) -> Result<()> {
    let Some(name) = request_name else { bail!("interrupted") };
    let removed = timeout(CLEANUP_TIMEOUT, certificate::remove(&connection.client, name)).await;
    match removed {
        Ok(Ok(())) => bail!("interrupted: the certificate signing request {name} was removed"),
        _ => bail!(
            "interrupted: the certificate signing request {name} may still exist; to remove it: \
             kubectl delete csr {name}"
        ),
    }
}

async fn add(
    args: &AddArgs,
    connection: &Connection,
    clock: &Clock,
    request_name: &OnceLock<String>,
) -> Result<()> {
    let client = &connection.client;
    check_rights(args, client).await?;
    if let Some(namespace) = &args.namespace {
        check_namespace(client, namespace).await?;
    }
    let role = match &args.role {
        Some(role) => Some(roles::find(client, role, args.namespace.as_deref()).await?),
        None => None,
    };
    let existing = bindings::managed(client).await?;
    let existing: Vec<Binding> = existing.into_iter().filter(|it| it.user == args.name).collect();
    let record = records::read(client, clock.now()).await?.remove(&args.name).unwrap_or_default();
    let was_removed = record.is_removed;
    let recorded = record.namespaces.clone();
    let groups = groups(args, connection, record).await?;
    let path = args.output.clone().unwrap_or_else(|| connection.path.clone());
    let namespace = namespace(args, &existing, &recorded);
    let unsigned = entry(args, connection, &connection.cluster, namespace, None);
    check_person(&path, &unsigned).map_err(|error| output_error(args, error))?;
    let wanted = Wanted { name: &args.name, groups: &groups, ttl: args.ttl, timeout: args.timeout };
    let issued = certificate::issue(client, clock, &wanted, request_name).await?;
    records::update(client, clock, &args.name, |record| {
        record.is_removed = false;
        if args.role.is_some() {
            record.namespaces.extend(args.namespace.clone());
        }
        record.add(issued.info.clone());
    })
    .await?;
    let cluster = cluster_entry(connection, &issued.info).await;
    let signed = entry(args, connection, &cluster, namespace, Some(&issued));
    let written = grant(client, args, role.as_ref(), &existing).await.and_then(|previous| {
        let added = add_person(&path, &signed)
            .map_err(|error| output_error(args, error))
            .context("the certificate was issued, but its context was not written")?;
        Ok((previous, added))
    });
    let (previous, AddedPerson { current, with_new_authority }) = match written {
        Ok(written) => written,
        Err(error) => {
            // Nobody has the key of this certificate. The first error is the one that helps.
            let serial = &issued.info.serial;
            let _ = records::update(client, clock, &args.name, |record| {
                record.is_removed = was_removed;
                record.namespaces.clone_from(&recorded);
                record.certificates.retain(|it| it.serial != *serial);
            })
            .await;
            return Err(error);
        }
    };
    report(args, connection, &issued, &path)?;
    report_current(args, connection, &path, current);
    report_new_authority(connection, &path, &with_new_authority);
    let is_without_rights = existing.is_empty() && issued.info.groups.is_empty();
    match &role {
        Some(role) => report_role(args, role, &previous)?,
        None if is_without_rights => suggest_role(args),
        None => {}
    }
    Ok(())
}

/// Names all rights that are missing, before anything is made.
async fn check_rights(args: &AddArgs, client: &Client) -> Result<()> {
    let needed = rights::of_add(args.role.is_some(), args.namespace.as_deref());
    let missing = rights::missing(client, &needed).await;
    if missing.is_empty() {
        return Ok(());
    }
    let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
    bail!(
        "cannot add the user: these rights are missing, which the ClusterRole cluster-admin has, and \
         the role in docs/users.md: {}",
        missing.join(", ")
    )
}

/// The namespace of the context. A renewal has that of the user's roles, if they are all in one. Roles in
/// namespaces that are not recorded do not count: an administrator of a namespace may bind any user
/// there, whose objects would then be created in it.
fn namespace<'a>(
    args: &'a AddArgs,
    existing: &'a [Binding],
    recorded: &BTreeSet<String>,
) -> Namespace<'a> {
    let mut namespaces: Vec<Option<&str>> = existing
        .iter()
        .map(|it| it.namespace.as_deref())
        .filter(|it| it.is_none_or(|name| recorded.contains(name)))
        .collect();
    namespaces.dedup();
    match (&args.namespace, namespaces.as_slice()) {
        (Some(namespace), _) => Namespace::Set(namespace),
        (None, [Some(namespace)]) if args.role.is_none() => Namespace::Default(namespace),
        _ => Namespace::Unchanged,
    }
}

/// The groups that are asked for, or those of the user's last certificate. A user that was removed
/// begins without groups.
async fn groups(
    args: &AddArgs,
    connection: &Connection,
    mut record: UserRecord,
) -> Result<Vec<String>> {
    if !args.groups.is_empty() {
        return Ok(args.groups.clone());
    }
    if record.is_removed {
        return Ok(Vec::new());
    }
    if record.certificates.is_empty() {
        // The record was deleted.
        let in_contexts = people(&connection.path, &connection.cluster_name)?;
        let authorities = Authorities::of(connection).await;
        let is_own = |it: &CertificateInfo| it.user == args.name && authorities.accept(it);
        record.certificates.extend(in_contexts.into_iter().filter(is_own));
    }
    let last = record.certificates.pop();
    Ok(last.map(|it| it.groups).unwrap_or_default())
}

/// Names `--output` in the error of its file.
fn output_error(args: &AddArgs, error: kubeconfig::Error) -> anyhow::Error {
    if args.output.is_some() { OutputError(error).into() } else { error.into() }
}

async fn check_namespace(client: &Client, namespace: &str) -> Result<()> {
    let found = get::<Value>(client, &format!("/api/v1/namespaces/{namespace}")).await;
    match found {
        Ok(None) => bail!(
            "there is no namespace {namespace:?}; to make it: kubectl create namespace {namespace}"
        ),
        // Whoever may not read it may still bind roles in it.
        Err(error) if !has_code(&error, 403) => Err(explain(error)),
        _ => Ok(()),
    }
}

/// Gives the user the role, takes away those that it replaces, and returns their names.
async fn grant(
    client: &Client,
    args: &AddArgs,
    role: Option<&Role>,
    existing: &[Binding],
) -> Result<Vec<String>> {
    let Some(role) = role else { return Ok(Vec::new()) };
    let granted = bindings::grant(client, &args.name, role, args.namespace.as_deref()).await?;
    let mut previous = Vec::new();
    for binding in existing {
        if binding.namespace == args.namespace && binding.name != granted {
            bindings::revoke(client, binding).await?;
            previous.push(binding.role.name.clone());
        }
    }
    Ok(previous)
}

/// The entry in the kubeconfig, with a certificate once it is issued.
fn entry<'a>(
    args: &'a AddArgs,
    connection: &'a Connection,
    cluster: &'a Value,
    namespace: Namespace<'a>,
    issued: Option<&'a Issued>,
) -> PersonEntry<'a> {
    PersonEntry {
        name: &args.name,
        cluster_name: &connection.cluster_name,
        cluster,
        certificate: issued.map(|it| it.certificate.as_str()).unwrap_or_default(),
        key: issued.map(|it| it.key.as_str()).unwrap_or_default(),
        namespace,
        current: match &args.output {
            _ if args.use_context => CurrentContext::New,
            Some(_) => CurrentContext::NewIfNone,
            None => CurrentContext::Unchanged,
        },
    }
}

fn report(args: &AddArgs, connection: &Connection, issued: &Issued, path: &Path) -> Result<()> {
    let info = &issued.info;
    let groups = if info.groups.is_empty() {
        String::new()
    } else {
        format!(" in the groups {}", info.groups.join(", "))
    };
    let (name, end) = (&args.name, utc::format(info.ends));
    let shortened = if issued.is_shortened { ", shortened by the cluster" } else { "" };
    print_line(&format!("user {name:?}{groups}: certificate valid until {end}{shortened}"))?;
    let context = context_name(name, &connection.cluster_name);
    print_line(&format!("context {context:?} written to {}", path.display()))?;
    if args.output.is_some() {
        print_note("the file has the private key: pass it on by a channel that nobody else reads");
        let server = connection.cluster["server"].as_str().unwrap_or_default();
        if ["https://127.", "https://localhost", "https://[::1]"]
            .iter()
            .any(|it| server.starts_with(it))
        {
            print_note(&format!("{server} can be reached from this machine only"));
        }
    }
    Ok(())
}

/// Names the current context of a file of `--output` if it is another one.
fn report_current(args: &AddArgs, connection: &Connection, path: &Path, current: Option<String>) {
    let context = context_name(&args.name, &connection.cluster_name);
    let Some(current) = current.filter(|it| *it != context) else { return };
    if args.output.is_some() {
        print_note(&format!(
            "the current context of the file is still {current:?}; to change it: kubectl config \
             --kubeconfig {} use-context {context}",
            path.display()
        ));
    }
}

/// Names the other contexts of a file whose cluster has got other authorities.
fn report_new_authority(connection: &Connection, path: &Path, contexts: &[String]) {
    if contexts.is_empty() {
        return;
    }
    print_note(&format!(
        "the cluster {:?} in {} has the present certificate authority now, also for {}: their \
         certificates may be of the one before, and need `sampan user add NAME` again then",
        connection.cluster_name,
        path.display(),
        contexts.join(", ")
    ));
}

fn report_role(args: &AddArgs, role: &Role, previous: &[String]) -> Result<()> {
    let Role { kind, name } = role;
    let place = match &args.namespace {
        Some(namespace) => format!("in namespace {namespace:?}"),
        None => "in all namespaces".to_owned(),
    };
    let was = if previous.is_empty() {
        String::new()
    } else {
        format!(", instead of {}", previous.join(", "))
    };
    print_line(&format!("{kind} {name:?} {place}{was}"))
}

fn suggest_role(args: &AddArgs) {
    let place = args.namespace.as_ref().map(|it| format!(" --namespace {it}"));
    print_note(&format!(
        "the user has no role yet; to give one: sampan user add {} --role view{}",
        args.name,
        place.unwrap_or_default()
    ));
}
