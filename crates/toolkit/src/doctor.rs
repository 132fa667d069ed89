//! `sampan doctor`: what is missing on this machine, and what to do about that.

mod check;
mod machine;
mod servers;

use std::path::PathBuf;

use anyhow::{Result, bail};
use serde_json::json;

use crate::cluster::ClusterArgs;
use crate::image::RegistryArgs;
use crate::output::Output;
use check::{Check, Status};

const EXAMPLES: &str = "Examples:
  sampan doctor
  sampan doctor --online --registry registry.example.com
  sampan doctor -o json";

/// Explains what is missing on this machine, and what to do next
///
/// Without --online and --registry, nothing is sent to other machines. The exit code is 0 unless
/// something is missing without which no operator can be built.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DoctorArgs {
    /// Ask also servers on other machines
    #[arg(long)]
    pub online: bool,
    /// Ask this registry whether it is there, and accepts the stored credentials
    #[arg(long, value_name = "REGISTRY")]
    pub registry: Option<String>,
    /// That registry has no TLS
    #[arg(long, requires = "registry")]
    pub plain_http: bool,
    /// Folder of the file config.json with credentials of registries [default: ~/.docker]
    #[arg(long, value_name = "DIR", env = "DOCKER_CONFIG")]
    pub docker_config: Option<PathBuf>,
    /// Form of the report
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: ReportFormat,
    #[command(flatten)]
    #[allow(missing_docs, reason = "its help is that of its fields")]
    pub cluster: ClusterArgs,
}

/// The form of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ReportFormat {
    /// A line for each check
    Text,
    /// A list of objects
    Json,
}

impl DoctorArgs {
    /// Makes all checks, and prints them.
    pub async fn run(&self, output: &mut Output<'_>) -> Result<()> {
        let mut checks = machine::build_checks();
        checks.push(servers::cluster(&self.cluster, self.online).await);
        checks.extend(machine::image_checks());
        if let Some(registry) = &self.registry {
            checks.push(servers::registry(registry, &self.registry_args()).await);
        }
        checks.push(machine::network_check());
        match self.output {
            ReportFormat::Text => {
                for check in &checks {
                    output.line(&check.line())?;
                }
            }
            ReportFormat::Json => {
                output.line(&serde_json::to_string_pretty(&json!(checks))?)?;
            }
        }
        let is_missing = |check: &&Check| check.status == Status::Missing;
        match checks.iter().filter(is_missing).count() {
            0 => Ok(()),
            1 => bail!("something is missing without which no operator can be built; see its line"),
            count => bail!(
                "{count} things are missing without which no operator can be built; see their lines"
            ),
        }
    }

    fn registry_args(&self) -> RegistryArgs {
        RegistryArgs {
            plain_http: self.plain_http,
            docker_config: self.docker_config.clone(),
            ..RegistryArgs::default()
        }
    }
}
