//! `sampan image login`.

use std::io::Read;

use anyhow::{Result, bail};

use super::credentials::Credentials;
use super::reference::check_registry;
use super::registry_args::RegistryArgs;
use crate::output::Output;

const EXAMPLES: &str = "Examples:
  sampan image login registry.example.com --username me --password-stdin < token";

/// Stores the password of a registry, after the registry has accepted it
///
/// It is written to ~/.docker/config.json, or given to the helper that this file names.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ImageLoginArgs {
    /// Host of the registry, with its port
    #[arg(value_name = "REGISTRY", value_parser = parse_registry)]
    pub host: String,
    #[command(flatten)]
    #[allow(missing_docs, reason = "its help is that of its fields")]
    pub registry: RegistryArgs,
}

fn parse_registry(text: &str) -> Result<String, String> {
    check_registry(text)?;
    Ok(text.to_owned())
}

impl ImageLoginArgs {
    /// Checks and stores the password in `input`.
    pub async fn run(&self, input: &mut (dyn Read + Send), output: &mut Output<'_>) -> Result<()> {
        let Some((user, password)) = self.registry.password(input)? else {
            bail!("name the user, and give the password: --username USER --password-stdin < FILE");
        };
        let file = self.registry.credentials_file()?;
        let credentials = Credentials::Password { user: user.clone(), password: password.clone() };
        let mut registry = self.registry.registry(&self.host, Some(credentials))?;
        let accepted = registry.ping().await;
        accepted.map_err(|error| self.registry.explain(error, &self.host, Some(&user)))?;
        let place = file.store(&self.host, &user, &password)?;
        output.line(&format!("logged in to {} as {user}; stored in {place}", self.host))?;
        Ok(())
    }
}
