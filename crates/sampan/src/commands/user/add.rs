//! `sampan user add`: a certificate, a role and a context for a user. Adding a user again renews the
//! certificate and replaces the role in the same place.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube_client::Client;

use super::bindings::{self, Binding};
use super::certificate::{self, Issued, Wanted};
use super::input::{parse_group, parse_name, parse_namespace, parse_ttl};
use super::roles::{self, Role};
use crate::connection::{Connection, ConnectionArgs, explain};
use crate::duration_arg::parse_duration;
use crate::kubeconfig::{CertificateInfo, PersonEntry, add_person, context_name};
use crate::output::{print_line, print_note};
use crate::utc;
use client::json_requests::{get, has_code};
use keel::Clock;
use machinery::Value;

const EXAMPLES: &str = "Examples:
  sampan user add jane --role view --namespace shop
  sampan user add jane --ttl 7d               renews the certificate and keeps the role
  sampan user add ci --role edit --namespace shop --output ci.kubeconfig
  sampan user add bob --group developers --role Role/deployer --namespace shop

It needs the rights to make and approve certificate signing requests and to bind the role, which
cluster-admin has. The private key is made on this machine and does not leave it.";

/// What has failed if the user of the command lacks a right.
const NEEDED_RIGHTS: &str = "cannot add the user: it takes the rights to create and approve certificate signing requests and \
     to bind the role, which the ClusterRole cluster-admin has";

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
    /// the namespace. It replaces the role that the user has there
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Namespace in which the role applies [default: all of them]
    #[arg(long, short, value_name = "NAMESPACE", value_parser = parse_namespace)]
    namespace: Option<String>,
    /// Lifetime of the certificate, as in `24h`, `1h30m` or `7d`; at least 10 minutes. The cluster may
    /// shorten it
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = parse_ttl)]
    ttl: Duration,
    /// Write the context to this file, with everything that another machine needs, and not to the
    /// kubeconfig of the command
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Make the new context the current one
    #[arg(long)]
    use_context: bool,
    /// Time to wait for the certificate
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    timeout: Duration,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Runs the command.
pub(super) async fn run(args: AddArgs, clock: &Clock) -> Result<()> {
    if args.output.as_deref() == Some(Path::new("-")) {
        bail!("the private key is not printed: name a file with --output");
    }
    let connection = args.connection.connect(clock).await?;
    let client = &connection.client;
    if let Some(namespace) = &args.namespace {
        check_namespace(client, namespace).await?;
    }
    let role = match &args.role {
        Some(role) => Some(roles::find(client, role, args.namespace.as_deref()).await?),
        None => None,
    };
    let existing = bindings::managed(client).await.context(NEEDED_RIGHTS)?;
    let existing: Vec<Binding> = existing.into_iter().filter(|it| it.user == args.name).collect();
    let groups = groups(&args, &existing);
    let wanted = Wanted { name: &args.name, groups: &groups, ttl: args.ttl, timeout: args.timeout };
    let issued = certificate::issue(client, clock, &wanted).await.context(NEEDED_RIGHTS)?;
    let granted = grant(client, clock, &args, role.as_ref(), &existing, &issued).await;
    let previous = match granted {
        Ok(previous) => previous,
        Err(error) => {
            // Nobody has the key of this certificate.
            let _ = certificate::remove(client, &issued.request_name).await;
            return Err(error.context(NEEDED_RIGHTS));
        }
    };
    let path = write(&args, &connection, &issued)?;
    certificate::remove_all(client, &args.name, Some(&issued.request_name)).await?;
    report(&args, &connection, &issued, &path)?;
    report_role(&args, role.as_ref(), &previous, &existing)
}

/// The groups that are asked for, or those of the user's last certificate.
fn groups(args: &AddArgs, existing: &[Binding]) -> Vec<String> {
    if !args.groups.is_empty() {
        return args.groups.clone();
    }
    let last = existing.iter().flat_map(|it| &it.certificates).max();
    last.map(|it| it.groups.clone()).unwrap_or_default()
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

/// Gives the user the role, takes away those that it replaces, and returns their names. Then all
/// bindings of the user say how long its certificates are valid.
async fn grant(
    client: &Client,
    clock: &Clock,
    args: &AddArgs,
    role: Option<&Role>,
    existing: &[Binding],
    issued: &Issued,
) -> Result<Vec<String>> {
    let mut certificates: Vec<CertificateInfo> =
        existing.iter().flat_map(|it| it.certificates.clone()).collect();
    certificates.push(issued.info.clone());
    certificates.retain(|it| it.ends > clock.now());
    certificates.sort_unstable();
    certificates.dedup();
    let mut granted = None;
    if let Some(role) = role {
        let place = args.namespace.as_deref();
        granted = Some(bindings::grant(client, &args.name, role, place, &certificates).await?);
    }
    let mut previous = Vec::new();
    for binding in existing {
        let is_replaced = granted.is_some() && binding.namespace == args.namespace;
        if is_replaced && granted.as_ref() != Some(&binding.name) {
            bindings::revoke(client, binding).await?;
            previous.push(binding.role.name.clone());
        } else {
            bindings::annotate(client, binding, &certificates).await?;
        }
    }
    Ok(previous)
}

/// Writes the context and returns the file.
fn write(args: &AddArgs, connection: &Connection, issued: &Issued) -> Result<PathBuf> {
    let path = args.output.clone().unwrap_or_else(|| connection.path.clone());
    let entry = PersonEntry {
        name: &args.name,
        cluster_name: &connection.cluster_name,
        cluster: &connection.cluster,
        certificate: &issued.certificate,
        key: &issued.key,
        namespace: args.namespace.as_deref(),
        is_current: args.use_context || args.output.is_some(),
    };
    add_person(&path, &entry)
        .context("the certificate was issued, but its context was not written")?;
    Ok(path)
}

fn report(args: &AddArgs, connection: &Connection, issued: &Issued, path: &Path) -> Result<()> {
    let info = &issued.info;
    let groups = if info.groups.is_empty() {
        String::new()
    } else {
        format!(" in the groups {}", info.groups.join(", "))
    };
    let (name, end) = (&args.name, utc::format(info.ends));
    print_line(&format!("user {name:?}{groups}: certificate valid until {end}"))?;
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

fn report_role(
    args: &AddArgs,
    role: Option<&Role>,
    previous: &[String],
    existing: &[Binding],
) -> Result<()> {
    let place = match &args.namespace {
        Some(namespace) => format!("in namespace {namespace:?}"),
        None => "in all namespaces".to_owned(),
    };
    if let Some(Role { kind, name }) = role {
        let was = if previous.is_empty() {
            String::new()
        } else {
            format!(", instead of {}", previous.join(", "))
        };
        return print_line(&format!("{kind} {name:?} {place}{was}"));
    }
    if existing.is_empty() && args.groups.is_empty() {
        print_note(&format!(
            "the user has no role yet; to give one: sampan user add {} --role view",
            args.name
        ));
    }
    Ok(())
}
