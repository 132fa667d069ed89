//! `create secret`: generic, tls and docker-registry.

use std::fs;

use base64::prelude::{BASE64_STANDARD, Engine};
use clap::Subcommand;

use super::GeneratorArgs;
use super::configmap::{DataArgs, exists};
use crate::error::Error;
use crate::io::Io;
use crate::session::Session;
use machinery::{Map, Value, json};

/// Create a Secret
#[derive(Debug, Subcommand)]
pub(super) enum SecretArgs {
    /// From files, folders or literals
    Generic(GenericArgs),
    /// From a certificate and its key
    Tls(TlsArgs),
    /// With the credentials of a container registry
    DockerRegistry(RegistryArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct GenericArgs {
    /// Name of the Secret
    name: String,
    #[command(flatten)]
    data: DataArgs,
    /// Type of the Secret
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    #[command(flatten)]
    common: GeneratorArgs,
}

#[derive(Debug, clap::Args)]
pub(super) struct TlsArgs {
    /// Name of the Secret
    name: String,
    /// File with the certificate, in PEM
    #[arg(long, value_name = "FILE")]
    cert: String,
    /// File with the key, in PEM
    #[arg(long, value_name = "FILE")]
    key: String,
    #[command(flatten)]
    common: GeneratorArgs,
}

#[derive(Debug, clap::Args)]
pub(super) struct RegistryArgs {
    /// Name of the Secret
    name: String,
    /// Address of the registry
    #[arg(long, value_name = "URL", default_value = "https://index.docker.io/v1/")]
    docker_server: String,
    /// User name
    #[arg(long, value_name = "NAME")]
    docker_username: String,
    /// Password
    #[arg(long, value_name = "PASSWORD")]
    docker_password: String,
    /// Address for mail
    #[arg(long, value_name = "MAIL", default_value = "")]
    docker_email: String,
    #[command(flatten)]
    common: GeneratorArgs,
}

impl SecretArgs {
    pub(super) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        let (name, kind, data, common) = match self {
            Self::Generic(args) => (args.name, args.kind, args.data.read()?, args.common),
            Self::Tls(args) => {
                let read = |path: &str| {
                    fs::read(path).map_err(|error| {
                        let error = match error.kind() {
                            std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
                            _ => error.to_string(),
                        };
                        Error::message(format!("Cannot read file {path}, open {path}: {error}"))
                    })
                };
                let data = vec![
                    ("tls.crt".to_owned(), read(&args.cert)?),
                    ("tls.key".to_owned(), read(&args.key)?),
                ];
                (args.name, Some("kubernetes.io/tls".to_owned()), data, args.common)
            }
            Self::DockerRegistry(args) => {
                let data = vec![(".dockerconfigjson".to_owned(), args.config().into_bytes())];
                let kind = "kubernetes.io/dockerconfigjson".to_owned();
                (args.name, Some(kind), data, args.common)
            }
        };
        let mut map = Map::new();
        for (key, bytes) in data {
            if map.insert(key.clone(), BASE64_STANDARD.encode(bytes).into()).is_some() {
                return Err(exists(&key, "Secret"));
            }
        }
        let mut object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
        if !map.is_empty() {
            object["data"] = Value::Object(map);
        }
        if let Some(kind) = kind {
            object["type"] = kind.into();
        }
        common.create(session, io, object, "failed to create secret ").await
    }
}

impl RegistryArgs {
    /// The content of a file of Docker, with its order of fields.
    fn config(&self) -> String {
        let quoted = |text: &str| Value::from(text).to_string();
        let user = &self.docker_username;
        let auth = BASE64_STANDARD.encode(format!("{user}:{}", self.docker_password));
        let email = match self.docker_email.as_str() {
            "" => String::new(),
            email => format!("\"email\":{},", quoted(email)),
        };
        format!(
            "{{\"auths\":{{{}:{{\"username\":{},\"password\":{},{email}\"auth\":{}}}}}}}",
            quoted(&self.docker_server),
            quoted(user),
            quoted(&self.docker_password),
            quoted(&auth)
        )
    }
}
