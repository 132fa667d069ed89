//! [`ConnectionArgs`] and [`Connection`]: commands that are clients of the API, with a context of a
//! kubeconfig.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use base64::prelude::{BASE64_STANDARD, Engine};
use kube_client::{Client, Error};

use crate::kubeconfig;
use crate::kubeconfig::{CertificateInfo, context_name};
use crate::utc;
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
    pub context: String,
    /// The names of the other contexts of the cluster in the kubeconfig.
    pub other_contexts: Vec<String>,
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
        match path.try_exists() {
            Ok(true) => {}
            Ok(false) => return Err(kubeconfig::Error::Absent { path }.into()),
            Err(source) => return Err(kubeconfig::Error::ReadConfig { path, source }.into()),
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
        let others = read.contexts.iter().filter(|it| {
            it.name != name && it.context.as_ref().is_some_and(|it| it.cluster == cluster_name)
        });
        let other_contexts: Vec<String> = others.map(|it| it.name.clone()).collect();
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
        Ok(Connection {
            client,
            path,
            cluster_name,
            cluster,
            namespace,
            context,
            other_contexts,
            config,
            clock,
        })
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
    /// Names the server in the error of a request without a response, and the next step in that of a
    /// request whose user is unknown. Other errors stay.
    fn name_server(&self, error: anyhow::Error) -> anyhow::Error {
        let error = match error.downcast::<Unauthenticated>() {
            Ok(Unauthenticated(message)) => return self.explain_credentials(&message),
            Err(other) => other,
        };
        let unreachable = match error.downcast::<Unreachable>() {
            Ok(unreachable) => unreachable,
            Err(other) => return other,
        };
        let server = self.cluster["server"].as_str().unwrap_or_default();
        let context = &self.context;
        // The causes between say only that a request has failed.
        let cause = keel::causes(&unreachable.0).last().map(ToString::to_string);
        let cause = cause.unwrap_or_default();
        // In the words of rustls, whose error hyper has wrapped several times.
        if cause.starts_with("invalid peer certificate") {
            let reason = if cause.contains("not valid for name") || cause.contains("expired") {
                "its certificate is not valid for this address, or at this time".to_owned()
            } else {
                format!(
                    "{} has another certificate authority than the server, which was replaced or is \
                     another one; `sampan up` writes the file of its administrator, who writes those \
                     of others with `sampan user add NAME --output FILE`",
                    self.path.display()
                )
            };
            return anyhow!(cause)
                .context(format!("cannot trust {server} (context {context}): {reason}"));
        }
        let data = self.cluster["certificate-authority-data"].as_str().unwrap_or_default();
        let authority = BASE64_STANDARD.decode(data).ok().and_then(|it| String::from_utf8(it).ok());
        let question = if authority.is_some_and(|it| is_issued_by_a_plane(&it)) {
            "is the plane running? start it with `sampan up`"
        } else {
            "is the cluster running?"
        };
        anyhow!(cause).context(format!("cannot reach {server} (context {context}): {question}"))
    }

    /// The error of a request whose user the server does not know; `message` is the server's.
    fn explain_credentials(&self, message: &str) -> anyhow::Error {
        let context = &self.context;
        let Some(CertificateInfo { user, ends, .. }) = self.certificate() else {
            return anyhow!(
                "the server does not accept the credentials of the context {context:?} ({message})"
            );
        };
        let next = if *context == context_name(&user, &self.cluster_name) {
            format!("an administrator renews it with `sampan user add {user}`")
        } else {
            "`sampan up` writes a new one for its administrator when it starts".to_owned()
        };
        if ends <= self.clock.now() {
            let end = utc::format(ends);
            return anyhow!(
                "the certificate of the context {context:?} ended at {end}: {next} ({message})"
            );
        }
        anyhow!(
            "the server does not accept the certificate of the context {context:?}, which is of \
             another cluster or of a replaced certificate authority: {next} ({message})"
        )
    }

    /// The client certificate of the context.
    fn certificate(&self) -> Option<CertificateInfo> {
        let auth = &self.config.auth_info;
        let pem = match (&auth.client_certificate_data, &auth.client_certificate) {
            (Some(data), _) => BASE64_STANDARD.decode(data).ok()?,
            (None, Some(path)) => std::fs::read(path).ok()?,
            (None, None) => return None,
        };
        CertificateInfo::read(&String::from_utf8(pem).ok()?)
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

/// A request whose user the server does not know, in the words of the server.
#[derive(Debug, thiserror::Error)]
#[error("the server does not know you ({0})")]
struct Unauthenticated(String);

/// A request that the user may not make, in the words of the server.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Forbidden(String);

/// The error of a request in the words of the server, or with its causes if there was no response.
pub(crate) fn explain(error: Error) -> anyhow::Error {
    match error {
        Error::Api(status) if status.code == 401 => Unauthenticated(status.message.clone()).into(),
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
