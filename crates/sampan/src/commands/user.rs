//! `sampan user`: people and machines that may use a cluster, each with a client certificate, a role
//! and a context in a kubeconfig.
//!
//! The commands are clients of the API: they work with every cluster that signs certificate signing
//! requests. Which certificates were issued is in a config map of the cluster ([`records`]), the roles
//! are role bindings ([`bindings`]), and the private key is only in the kubeconfig.

mod input;
mod certificate;
mod roles;
mod bindings;
mod records;
mod authorities;
mod rights;
mod add;
mod list;
mod remove;

use anyhow::{Result, bail};
use kube_client::Client;

use crate::connection::Connection;
use crate::kubeconfig::people;
use apiserver::certificates::Authority;
use authorities::Authorities;
use keel::{Clock, Timestamp};

const EXAMPLES: &str = "Examples:
  sampan user add jane --role view --namespace shop
                                              may read in one namespace, for a day
  kubectl --context jane@sampan get pods
  sampan user add ci --role edit --namespace shop --ttl 12h --output ci.kubeconfig
                                              a file for another machine
  sampan user add bob --group developers --role cluster-admin
                                              may do everything
  sampan user list
  sampan user remove jane --namespace shop
  sampan user remove jane";

/// Give people and machines access to a cluster
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UserArgs {
    #[command(subcommand)]
    command: UserCommand,
}

#[derive(Debug, clap::Subcommand)]
enum UserCommand {
    Add(add::AddArgs),
    #[command(alias = "ls")]
    List(list::ListArgs),
    #[command(visible_aliases = ["rm", "del"], alias = "delete")]
    Remove(remove::RemoveArgs),
}

/// Runs the subcommand.
pub(crate) async fn run(args: UserArgs) -> Result<()> {
    let clock = Clock::system();
    match args.command {
        UserCommand::Add(args) => add::run(args, &clock).await,
        UserCommand::List(args) => list::run(args, &clock).await,
        UserCommand::Remove(args) => remove::run(args, &clock).await,
    }
}

/// The roles that `sampan user add` has given a user in a namespace, or in the cluster. That of the
/// namespace itself is `Role/NAME`.
pub(super) async fn managed_roles(
    client: &Client,
    user: &str,
    namespace: Option<&str>,
) -> Result<Vec<String>> {
    let all = bindings::managed(client).await?.into_iter();
    let here = all.filter(|it| it.user == user && it.namespace.as_deref() == namespace);
    Ok(here.map(|it| it.role.to_argument()).collect())
}

/// Whether the cluster of a connection is a plane, but not the one with this authority.
pub(super) fn is_of_another_plane(connection: &Connection, authority: &Authority) -> bool {
    let trusted = Authorities::in_kubeconfig(connection);
    trusted.is_some_and(|it| !it.overlaps(&Authorities::read(authority.bundle())))
}

/// The users with valid certificates that are not of a plane's authority.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct OldCertificates {
    /// Those who have no other certificate.
    pub alone: Vec<String>,
    /// Those who have one of the authority as well, perhaps in another file.
    pub beside_new: Vec<String>,
}

/// The users with valid certificates of other authorities than this one of a plane. It is an error if
/// the cluster of the connection is another one.
pub(super) async fn old_certificates(
    connection: &Connection,
    now: Timestamp,
    authority: &Authority,
) -> Result<OldCertificates> {
    let Connection { context, path, .. } = connection;
    if Authorities::in_kubeconfig(connection).is_none()
        || is_of_another_plane(connection, authority)
    {
        bail!("the context {context:?} in {} is not one of this plane", path.display());
    }
    let mut users = records::read(&connection.client, now).await?;
    for certificate in people(&connection.path, &connection.cluster_name)? {
        users.entry(certificate.user.clone()).or_default().add(certificate);
    }
    let current = Authorities::read(authority.certificate());
    let mut old = OldCertificates::default();
    for (name, user) in users {
        let accepted = user.accepted(now, &current).count();
        if user.is_removed || user.valid(now).count() == accepted {
            continue;
        }
        let list = if accepted == 0 { &mut old.alone } else { &mut old.beside_new };
        list.push(name);
    }
    Ok(old)
}
