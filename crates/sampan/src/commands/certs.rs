//! `sampan certs`: the certificate authority of a plane.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::timeout;

use crate::commands::up::default_data_dir;
use crate::commands::user::{OldCertificates, is_of_another_plane, old_certificates};
use crate::connection::ConnectionArgs;
use crate::output::{print_line, print_note};
use apiserver::certificates::authority_files::AuthorityFiles;
use apiserver::certificates::{Authority, Error};
use apiserver::server::data_holder;
use keel::Clock;

const EXAMPLES: &str = "Examples:
  sampan certs rotate                         of the plane in the default data directory
  sampan certs rotate --data-dir ./plane
  sampan certs distrust-old                   refuses certificates of the replaced authorities

If the key of an authority has leaked: rotate, then distrust-old.
The plane is that of the data directory, whatever the context is.";

/// The time for asking a plane who has certificates of its old authorities.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The time to wait for the plane, which reads its files every five seconds, and its listener those that
/// it has read as often.
const APPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// The interval at which the record of the plane is read.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Replace the certificate authority of a plane
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CertsArgs {
    #[command(subcommand)]
    command: CertsCommand,
}

#[derive(Debug, clap::Subcommand)]
enum CertsCommand {
    /// Create a new certificate authority. The command returns when a running plane uses it, which
    /// takes up to ten seconds and no restart; certificates and kubeconfigs of the old authority stay
    /// valid until they expire, or until `sampan certs distrust-old`
    Rotate(DirectoryArgs),
    /// Refuse the certificates of replaced authorities. The command returns when a running plane does
    /// so, which takes up to ten seconds and no restart. Users whose certificate is of an old authority
    /// need `sampan user add NAME` again; they are named if the plane runs
    DistrustOld(DistrustArgs),
}

#[derive(Debug, clap::Args)]
struct DirectoryArgs {
    /// Data directory of the plane [default: the platform's data directory for sampan]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct DistrustArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Changes the files of the authority.
pub(crate) async fn run(args: &CertsArgs) -> Result<()> {
    let clock = Clock::system();
    match &args.command {
        CertsCommand::Rotate(args) => {
            let connection = ConnectionArgs { kubeconfig: None, context: None };
            rotate(&PlaneFiles::open(args, &connection, clock).await?).await
        }
        CertsCommand::DistrustOld(DistrustArgs { directory, connection }) => {
            distrust_old(&PlaneFiles::open(directory, connection, clock).await?, connection).await
        }
    }
}

/// The files of a plane's authority.
struct PlaneFiles {
    data_dir: PathBuf,
    /// The subdirectory of the authority.
    directory: PathBuf,
    files: AuthorityFiles,
    /// The authority before the command.
    authority: Authority,
    clock: Clock,
}

impl PlaneFiles {
    /// The files in the directory of the arguments. The default one is refused if the context is that
    /// of another plane, which may be the one that is meant.
    async fn open(args: &DirectoryArgs, connection: &ConnectionArgs, clock: Clock) -> Result<Self> {
        let data_dir = match &args.data_dir {
            Some(directory) => directory.clone(),
            None => default_data_dir()?,
        };
        let directory = data_dir.join("pki");
        if directory.join("ca.crt").try_exists().is_ok_and(|exists| !exists) {
            bail!(
                "there is no plane in {} yet: `sampan up` makes one, or name another directory with \
                 --data-dir",
                data_dir.display()
            );
        }
        let authority = Authority::open(&directory, clock.now());
        let authority = authority.map_err(|error| explain(error, &data_dir))?;
        if args.data_dir.is_none()
            && let Ok(connection) = connection.connect(&clock).await
            && is_of_another_plane(&connection, &authority)
        {
            bail!(
                "the context {:?} in {} is not one of the plane in {}, the default directory: name \
                 the data directory of the plane that you mean with --data-dir",
                connection.context,
                connection.path.display(),
                data_dir.display()
            );
        }
        let files = AuthorityFiles::new(&directory);
        Ok(Self { data_dir, directory, files, authority, clock })
    }

    /// Waits until the plane of the files, if it runs, has put them into effect, and says what it does
    /// from then on.
    async fn wait_for_plane(&self, effect: &str) -> Result<()> {
        let data_dir = self.data_dir.display();
        let Some(holder) = data_holder(&self.data_dir) else {
            print_note(&format!(
                "no plane runs with the data in {data_dir}: its next start uses it"
            ));
            return Ok(());
        };
        if !self.is_in_effect()? {
            print_note(&format!(
                "waiting for the plane in {data_dir} ({holder}), for up to ten seconds"
            ));
        }
        let waiting = async {
            while !self.is_in_effect()? {
                self.clock.sleep(POLL_INTERVAL).await;
            }
            Ok::<(), anyhow::Error>(())
        };
        match timeout(APPLY_TIMEOUT, waiting).await {
            Ok(waited) => waited?,
            Err(_) => bail!(
                "the plane in {data_dir} ({holder}) does not use it after {APPLY_TIMEOUT:?}: its log \
                 may say why; stop it with Ctrl-C, and start it again"
            ),
        }
        print_note(&format!("the plane in {data_dir} ({holder}) {effect}"));
        Ok(())
    }

    /// Whether the plane uses the files, or has ended.
    fn is_in_effect(&self) -> Result<bool> {
        let are_served = self.files.are_served(self.clock.now());
        let are_served = are_served.map_err(|error| explain(error, &self.data_dir))?;
        Ok(are_served || data_holder(&self.data_dir).is_none())
    }
}

/// Adds a remedy to the error of files that belong to another account.
fn explain(error: Error, data_dir: &Path) -> anyhow::Error {
    let is_refused = matches!(
        &error,
        Error::File { source, .. } if source.kind() == ErrorKind::PermissionDenied
    );
    let data_dir = data_dir.display();
    let remedy = if is_refused {
        format!(
            "the files of the plane in {data_dir} belong to another account: run the command as that \
             account, with --data-dir {data_dir}"
        )
    } else {
        format!("the certificate authority in {data_dir} cannot be replaced")
    };
    anyhow::Error::new(error).context(remedy)
}

async fn rotate(plane: &PlaneFiles) -> Result<()> {
    let authority = plane.files.rotate(plane.clock.now());
    let authority = authority.map_err(|error| explain(error, &plane.data_dir))?;
    print_line(&format!("new certificate authority in {}", plane.directory.display()))?;
    plane.wait_for_plane("uses it now, and has written its kubeconfig again").await?;
    let old = match authority.bundle().matches("BEGIN CERTIFICATE").count() - 1 {
        1 => "the old authority stays".to_owned(),
        count => format!("{count} old authorities stay"),
    };
    print_note(&format!(
        "{old} trusted: to end that: sampan certs distrust-old; users of `sampan user add` then \
         need `sampan user add NAME` again"
    ));
    Ok(())
}

async fn distrust_old(plane: &PlaneFiles, connection: &ConnectionArgs) -> Result<()> {
    // The certificate of the administrator may be refused afterwards.
    let users = users_with_old_certificates(plane, connection).await;
    let removed = plane.files.distrust_predecessors(plane.clock.now());
    let removed = removed.map_err(|error| explain(error, &plane.data_dir))?;
    let path = plane.directory.join("ca.crt");
    if removed == 0 {
        print_line(&format!("no old authority is trusted in {}", path.display()))?;
        // A former command may have ended before the plane has put its change into effect.
        return plane.wait_for_plane("accepts certificates of its present authority only").await;
    }
    let old = match removed {
        1 => "1 old authority".to_owned(),
        count => format!("{count} old authorities"),
    };
    print_line(&format!("{old} removed from {}", path.display()))?;
    let effect = "refuses their certificates now, and has written its kubeconfig again";
    let waited = plane.wait_for_plane(effect).await;
    match users {
        Ok(users) => report_users(&users),
        Err(error) => print_note(&format!(
            "which users need `sampan user add NAME` again is not known: {error}; `sampan user list` \
             says it with a context of the plane"
        )),
    }
    waited
}

fn report_users(OldCertificates { alone, beside_new }: &OldCertificates) {
    if alone.is_empty() && beside_new.is_empty() {
        print_note("no user has a certificate of an old authority");
    }
    if !beside_new.is_empty() {
        print_note(&format!(
            "these users have a certificate of the new authority; files of theirs with an older one \
             stop working: {}",
            beside_new.join(", ")
        ));
    }
    if !alone.is_empty() {
        print_note(&format!(
            "these users need `sampan user add NAME` again, with --output for a file of their own: {}",
            alone.join(", ")
        ));
    }
}

/// The users with certificates of other authorities than the present one, if the plane can be asked.
async fn users_with_old_certificates(
    plane: &PlaneFiles,
    connection: &ConnectionArgs,
) -> Result<OldCertificates> {
    let PlaneFiles { authority, clock, .. } = plane;
    let asked = connection
        .run(clock, async |connection| old_certificates(connection, clock.now(), authority).await);
    match timeout(TIMEOUT, asked).await {
        Ok(users) => users,
        Err(_) => bail!("the plane has not answered within {TIMEOUT:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_files_of_another_account_says_what_to_do() {
        let check = |kind: ErrorKind, expect: &str| {
            let error = Error::File { path: "/data/pki/ca.crt".into(), source: kind.into() };
            assert_eq!(explain(error, Path::new("/data")).to_string(), expect);
        };
        check(
            ErrorKind::PermissionDenied,
            "the files of the plane in /data belong to another account: run the command as that \
             account, with --data-dir /data",
        );
        check(ErrorKind::Other, "the certificate authority in /data cannot be replaced");
    }
}
