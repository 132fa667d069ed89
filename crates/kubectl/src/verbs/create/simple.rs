//! `create namespace`, `create serviceaccount` and `create quota`.

use super::{GeneratorArgs, key_value};
use crate::error::Error;
use crate::io::Io;
use crate::session::Session;
use machinery::{Map, Value, json};

/// Create a namespace
#[derive(Debug, clap::Args)]
pub(super) struct NamespaceArgs {
    /// Name of the namespace
    name: String,
    #[command(flatten)]
    common: GeneratorArgs,
}

/// Create a service account
#[derive(Debug, clap::Args)]
pub(super) struct ServiceAccountArgs {
    /// Name of the service account
    name: String,
    #[command(flatten)]
    common: GeneratorArgs,
}

/// Create a resource quota
#[derive(Debug, clap::Args)]
pub(super) struct QuotaArgs {
    /// Name of the quota
    name: String,
    /// Limits, such as cpu=1,pods=2
    #[arg(long, value_name = "RESOURCE=AMOUNT", value_delimiter = ',')]
    hard: Vec<String>,
    /// What the quota applies to
    #[arg(long, value_name = "SCOPE", value_delimiter = ',')]
    scopes: Vec<String>,
    #[command(flatten)]
    common: GeneratorArgs,
}

impl NamespaceArgs {
    pub(super) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        let object =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}});
        self.common.create(session, io, object, "").await
    }
}

impl ServiceAccountArgs {
    pub(super) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        let object =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": self.name}});
        self.common.create(session, io, object, "failed to create serviceaccount: ").await
    }
}

impl QuotaArgs {
    pub(super) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        let mut hard = Map::new();
        for pair in &self.hard {
            let (resource, amount) = key_value(pair, "limit")?;
            let amount = machinery::quantity::canonical(amount).map_err(|_| {
                Error::message(format!("{amount:?} is not an amount such as 500m or 1Gi"))
            })?;
            hard.insert(resource.to_owned(), amount.into());
        }
        let mut spec = Map::new();
        if !hard.is_empty() {
            spec.insert("hard".to_owned(), Value::Object(hard));
        }
        if !self.scopes.is_empty() {
            spec.insert("scopes".to_owned(), self.scopes.clone().into());
        }
        let object = json!({"apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": {"name": self.name}, "spec": spec});
        self.common.create(session, io, object, "failed to create quota: ").await
    }
}
