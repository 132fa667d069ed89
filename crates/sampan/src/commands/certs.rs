//! `sampan certs`: the certificate authority of a plane.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::commands::up::default_data_dir;
use crate::output::{print_line, print_note};
use apiserver::certificates::authority_files::AuthorityFiles;
use keel::Clock;

const EXAMPLES: &str = "Examples:
  sampan certs rotate                         of the plane in the default data directory
  sampan certs rotate --data-dir ./plane";

/// Replace the certificate authority of a plane
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CertsArgs {
    #[command(subcommand)]
    command: CertsCommand,
}

#[derive(Debug, clap::Subcommand)]
enum CertsCommand {
    /// Create a new certificate authority. A running plane uses it within seconds, without a restart;
    /// certificates and kubeconfigs of the old authority stay valid until they expire
    Rotate(RotateArgs),
}

#[derive(Debug, clap::Args)]
struct RotateArgs {
    /// Data directory of the plane [default: the platform's data directory for sampan]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// Replaces the files of the authority.
pub(crate) fn run(args: &CertsArgs) -> Result<()> {
    let CertsCommand::Rotate(args) = &args.command;
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
    AuthorityFiles::new(&directory)
        .rotate(Clock::system().now())
        .context("name the data directory of a plane with --data-dir")?;
    print_line(&format!("new certificate authority in {}", directory.display()))?;
    print_note("a running plane uses it within seconds, and writes its kubeconfig again");
    print_note(&format!(
        "the old authority stays trusted: to end that, remove all certificates but the first from \
         {}; users of `sampan user add` then need `sampan user add NAME` again",
        directory.join("ca.crt").display()
    ));
    Ok(())
}
