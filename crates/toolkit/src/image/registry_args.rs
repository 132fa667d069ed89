//! [`RegistryArgs`]: how a registry is reached, and with which credentials.

use std::env;
use std::io::Read;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use http::StatusCode;

use super::credentials::{Credentials, CredentialsFile};
use super::http_client::HttpError;
use super::reference::is_loopback;
use super::registry::{Registry, RegistryError};
use tls::Trust;

/// How a registry is reached.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct RegistryArgs {
    /// The registry has no TLS; a registry on this machine is assumed to have none
    #[arg(long, conflicts_with = "insecure")]
    pub plain_http: bool,
    /// Do not verify the registry's certificate; a registry on this machine is assumed to have TLS then
    #[arg(long)]
    pub insecure: bool,
    /// User of the registry [default: that of `sampan image login`]
    #[arg(short, long, value_name = "USER", requires = "password_stdin")]
    pub username: Option<String>,
    /// Read the password, or a token, from standard input
    #[arg(long, requires = "username")]
    pub password_stdin: bool,
    /// Folder of the file config.json with credentials [default: ~/.docker]
    #[arg(long, value_name = "DIR", env = "DOCKER_CONFIG")]
    pub docker_config: Option<PathBuf>,
}

impl RegistryArgs {
    /// The user of the arguments, and the password in `input`.
    pub(super) fn password(&self, input: &mut dyn Read) -> Result<Option<(String, String)>> {
        let Some(user) = &self.username else { return Ok(None) };
        let mut password = String::new();
        input.read_to_string(&mut password).context("cannot read the password")?;
        let password = password.trim_end_matches(['\n', '\r']);
        if password.is_empty() {
            bail!("standard input has no password");
        }
        Ok(Some((user.clone(), password.to_owned())))
    }

    /// The file with stored credentials.
    pub(crate) fn credentials_file(&self) -> Result<CredentialsFile> {
        let given = self.docker_config.clone().filter(|folder| !folder.as_os_str().is_empty());
        let folder = match given {
            Some(folder) => folder,
            None => env::home_dir().context("there is no home folder")?.join(".docker"),
        };
        CredentialsFile::read(&folder.join("config.json"))
    }

    /// The registry, to which nothing is sent yet.
    pub(crate) fn registry(
        &self,
        host: &str,
        credentials: Option<Credentials>,
    ) -> Result<Registry> {
        let is_plain = self.plain_http || (is_loopback(host) && !self.insecure);
        let scheme = if is_plain { "http" } else { "https" };
        let trust = if self.insecure { Trust::Insecure } else { Trust::System };
        Ok(Registry::new(host, scheme, &trust, credentials)?)
    }

    /// An error, and what to do.
    pub(crate) fn explain(
        &self,
        error: RegistryError,
        host: &str,
        user: Option<&str>,
    ) -> anyhow::Error {
        let login = format!("sampan image login {host} --username USER --password-stdin");
        let remedy = match &error {
            RegistryError::Http(HttpError::Connect { .. }) if self.plain_http || is_loopback(host) => {
                "is the registry running, and is its port right?".to_owned()
            }
            RegistryError::Http(HttpError::Connect { .. }) => {
                "is its name right? If it has no TLS, add --plain-http; if this machine does not trust \
                 its certificate, install the certificate of its authority, or add --insecure"
                    .to_owned()
            }
            RegistryError::Refused { status, .. } => match (*status, user) {
                (StatusCode::UNAUTHORIZED, Some(user)) => {
                    format!("it does not accept the credentials of {user}: `{login}` replaces them")
                }
                (StatusCode::UNAUTHORIZED, None) => format!("log in first: {login}"),
                (StatusCode::FORBIDDEN, Some(user)) => {
                    format!("{user} may not do this: ask who runs the registry for the right to push")
                }
                (StatusCode::FORBIDDEN, None) => {
                    format!("it allows this to nobody who has not logged in: {login}")
                }
                (StatusCode::NOT_FOUND, _) => {
                    "does the registry have this repository? Some must be told to create it".to_owned()
                }
                (StatusCode::PAYLOAD_TOO_LARGE, _) => {
                    "it, or a proxy before it, has a limit for the size of blobs".to_owned()
                }
                (status, _) if status.is_server_error() => {
                    "its log may say why; try again later".to_owned()
                }
                _ => return error.into(),
            },
            RegistryError::Http(HttpError::Interrupted { .. } | HttpError::Timeout { .. }) => {
                "what was sent completely stays there, and the same command continues".to_owned()
            }
            RegistryError::Http(_) | RegistryError::Protocol { .. } => return error.into(),
        };
        anyhow!("{error}; {remedy}")
    }
}
