//! [`ConnectionArgs`] and [`Connection`]: commands that are clients of the API, with a context of a
//! kubeconfig.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use base64::prelude::{BASE64_STANDARD, Engine};
use kube_client::{Client, Error};

use crate::kubeconfig;
use apiserver::certificates::is_issued_by_a_plane;
use client::config::{Config, Kubeconfig, from_kubeconfig};
use client::connect;
use keel::Clock;
use machinery::{Value, json};

/// The kubeconfig and the context of a command.
#[derive(Debug, clap::Args)]
pub(crate) struct ConnectionArgs {
    /// Kubeconfig of the cluster [default: $KUBECONFIG or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context in the kubeconfig [default: the current context]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// The user to act as, as with kubectl.
#[derive(Debug, clap::Args)]
pub(crate) struct ImpersonationArgs {
    /// User to act as: a name, or `system:serviceaccount:NAMESPACE:NAME`
    #[arg(long = "as", value_name = "USER")]
    pub user: Option<String>,
    /// Group to act as; repeat it for each group
    #[arg(long = "as-group", value_name = "GROUP", requires = "user")]
    pub groups: Vec<String>,
    /// UID to act as
    #[arg(long = "as-uid", value_name = "UID", requires = "user")]
    pub uid: Option<String>,
}

/// A client of a cluster, and what the kubeconfig says of the cluster.
pub(crate) struct Connection {
    /// Sends requests with the credentials of the context.
    pub client: Client,
    /// The kubeconfig: the first one, if `$KUBECONFIG` has several.
    pub path: PathBuf,
    /// The name of the cluster in the kubeconfig.
    pub cluster_name: String,
    /// The cluster's entry, which needs no other file.
    pub cluster: Value,
    /// The namespace of the context.
    pub namespace: String,
    /// The name of the context.
    context: String,
    config: Config,
    clock: Clock,
}

impl ConnectionArgs {
    /// Reads the kubeconfig. Nothing is sent yet.
    pub(crate) async fn connect(&self, clock: &Clock) -> Result<Connection> {
        let path = match &self.kubeconfig {
            Some(path) => path.clone(),
            None => kubeconfig::default_path()?,
        };
        if !path.exists() {
            return Err(kubeconfig::Error::Absent { path }.into());
        }
        let read = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let unusable = || format!("cannot use the kubeconfig {}", path.display());
        let read = read.with_context(unusable)?;
        let name = self.context.clone().or_else(|| read.current_context.clone());
        let name = name.filter(|it| !it.is_empty());
        let name = name.ok_or_else(|| kubeconfig::Error::NoContext { path: path.clone() })?;
        let context = read.contexts.iter().find(|it| it.name == name);
        let Some(context) = context.and_then(|it| it.context.as_ref()) else {
            let known: Vec<&str> = read.contexts.iter().map(|it| it.name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(kubeconfig::Error::Missing { path, what: "context", name, known }.into());
        };
        let cluster_name = context.cluster.clone();
        let found = read.clusters.iter().find(|it| it.name == cluster_name);
        let found = found.and_then(|it| it.cluster.clone());
        let mut cluster = found
            .ok_or_else(|| anyhow!("it has no cluster {cluster_name:?}"))
            .with_context(unusable)?;
        if let (Some(file), None) =
            (cluster.certificate_authority.take(), &cluster.certificate_authority_data)
        {
            let read = std::fs::read(&file).with_context(|| format!("cannot read {file}"))?;
            cluster.certificate_authority_data = Some(BASE64_STANDARD.encode(read));
        }
        let cluster = serde_json::to_value(&cluster).with_context(unusable)?;
        let config = from_kubeconfig(read, Some(&name)).await.with_context(unusable)?;
        let client = connect(config.clone(), clock)?;
        let namespace = config.default_namespace.clone();
        let clock = clock.clone();
        let context = name;
        Ok(Connection { client, path, cluster_name, cluster, namespace, context, config, clock })
    }

    /// Connects and runs a command, whose error names the server if that cannot be reached.
    pub(crate) async fn run<T>(
        &self,
        clock: &Clock,
        command: impl AsyncFnOnce(&Connection) -> Result<T>,
    ) -> Result<T> {
        let connection = self.connect(clock).await?;
        command(&connection).await.map_err(|error| connection.name_server(error))
    }
}

impl Connection {
    /// Names the server in the error of a request without a response. Other errors stay.
    fn name_server(&self, error: anyhow::Error) -> anyhow::Error {
        let unreachable = match error.downcast::<Unreachable>() {
            Ok(unreachable) => unreachable,
            Err(other) => return other,
        };
        let server = self.cluster["server"].as_str().unwrap_or_default();
        let data = self.cluster["certificate-authority-data"].as_str().unwrap_or_default();
        let authority = BASE64_STANDARD.decode(data).ok().and_then(|it| String::from_utf8(it).ok());
        let question = if authority.is_some_and(|it| is_issued_by_a_plane(&it)) {
            "is the plane running? start it with `sampan up`"
        } else {
            "is the cluster running?"
        };
        let context = &self.context;
        anyhow::Error::from(unreachable.0)
            .context(format!("cannot reach {server} (context {context}): {question}"))
    }

    /// A client that acts as another user; the connection's own client without arguments.
    pub(crate) fn acting_as(&self, args: &ImpersonationArgs) -> Result<Client> {
        if args.user.is_none() {
            return Ok(self.client.clone());
        }
        let mut config = self.config.clone();
        config.auth_info.impersonate.clone_from(&args.user);
        config.auth_info.impersonate_uid.clone_from(&args.uid);
        config.auth_info.impersonate_groups = Some(args.groups.clone());
        config.auth_info.impersonate_user_extra = None;
        Ok(connect(config, &self.clock)?)
    }
}

/// A request without a response.
#[derive(Debug, thiserror::Error)]
#[error("cannot reach the server of the context")]
struct Unreachable(#[source] Error);

/// A request that the user may not make, in the words of the server.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Forbidden(String);

/// The error of a request in the words of the server, or with its causes if there was no response.
pub(crate) fn explain(error: Error) -> anyhow::Error {
    match error {
        Error::Api(status) if status.code == 401 => anyhow!(
            "the server does not know you: the credentials of the context have expired, or belong to \
             another cluster ({})",
            status.message
        ),
        Error::Api(status) if status.code == 403 => Forbidden(status.message.clone()).into(),
        Error::Api(status) => anyhow!("{}", status.message),
        other => Unreachable(other).into(),
    }
}

/// Says which rights a command needs, if it has failed for want of one.
pub(crate) fn with_rights(error: anyhow::Error, needed: &'static str) -> anyhow::Error {
    if error.is::<Forbidden>() { error.context(needed) } else { error }
}

/// The name of the user of a client, by the server, with its groups and further attributes.
pub(crate) async fn who_am_i(client: &Client) -> Result<Value, Error> {
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let mut reviewed: Value = client::json_requests::create(client, path, &review).await?;
    Ok(reviewed["status"]["userInfo"].take())
}
