//! `sampan up`: starts a plane, prints its URL and kubeconfig, and stops it cleanly.

mod audit_args;
mod authorization_args;
mod controllers_note;
mod encryption_args;
mod flow_control_args;
mod help;
mod listen_address;
mod oidc_args;
mod operators;
mod request_header_args;
mod service_account_args;
mod start_error;
mod tls_args;
mod token_webhook_args;

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, timeout_at};

use crate::file_size_limit;
use crate::kubeconfig::{self, Entry, Merged};
use crate::memory_limit;
use crate::output::{print_line, print_note};
use crate::stop_signals::StopSignals;
use apiserver::auth::authentication::client_authorities::ClientAuthorities;
use apiserver::auth::authentication::oidc::OidcSettings;
use apiserver::auth::authentication::token::TokenFile;
use apiserver::certificates::LOOPBACK_NAME;
use apiserver::certificates::authority_files::AuthorityFiles;
use apiserver::certificates::tls_settings::ServingSource;
use apiserver::{Anonymous, Config, Server, StoreConfig};
use audit_args::AuditArgs;
use authorization_args::AuthorizationArgs;
use cluster::{Cluster, ClusterConfig, Selection};
use controllers_note::controllers_note;
use encryption_args::EncryptionArgs;
use flow_control_args::FlowControlArgs;
use help::{EXAMPLES, for_short_help};
use listen_address::{ListenAddress, server_url};
use oidc_args::OidcArgs;
use request_header_args::RequestHeaderArgs;
use service_account_args::ServiceAccountArgs;
use tls_args::TlsArgs;
use token_webhook_args::TokenWebhookArgs;

/// The time for which a simulated pod that is being deleted runs on, if its controller may give its name
/// to the next pod. It counts from the second of the deletion, so it is 0.3 to 1.3 seconds. If the next
/// pod came within milliseconds, `kubectl delete pod` would often wait for ever: it reads the old pod
/// and then watches the name.
const POD_TERMINATION: Duration = Duration::from_millis(1300);

/// The time after which a start says what it waits for.
const SILENT_START: Duration = Duration::from_secs(1);

/// The name of the plane's cluster, user and context in a kubeconfig.
const NAME: &str = "sampan";

/// Start a control plane and run it until a signal stops it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, mut_args(for_short_help))]
pub(crate) struct UpArgs {
    /// Address to listen on, as in `localhost:8443`; port 0 picks a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:6443")]
    listen: ListenAddress,
    /// Directory of objects and certificates [default: the platform's data directory for sampan]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["in_memory", "etcd"])]
    data_dir: Option<PathBuf>,
    /// Store nothing on disk: all objects are lost when the plane stops
    #[arg(long, conflicts_with = "etcd")]
    in_memory: bool,
    /// Store objects in an etcd cluster (not supported yet)
    #[arg(long, value_name = "URL", value_delimiter = ',', hide = true)]
    etcd: Vec<String>,
    /// Kubeconfig to write; entries are merged into an existing file [default: $KUBECONFIG or
    /// ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Number of simulated nodes, on which pods have a status but no containers run; at most 10000
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = parse_nodes,
        allow_negative_numbers = true
    )]
    nodes: u16,
    /// Controllers to run: `*` for all, `NAME` for one, `-NAME` to take one from `*`, or `none`; for
    /// example `*,-daemonset`
    #[arg(
        long,
        value_name = "LIST",
        default_value = "*",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    controllers: Vec<String>,
    /// Operators to run beside the API server: `network`, `vpc`, `custompod`, `sidecar`. Each has a
    /// service account in the namespace `operators`, and takes its options from the environment, for
    /// example `NETWORK_BACKEND`
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    with: Vec<String>,
    /// Limit of the size of all objects together; at the limit, objects can be deleted, and updated
    /// without growing. In memory they take up to six times as much [default: a sixth of the memory
    /// available to the program]
    #[arg(
        long,
        value_name = "BYTES",
        value_parser = parse_bytes,
        allow_negative_numbers = true,
        help_heading = "Limits"
    )]
    quota_backend_bytes: Option<usize>,
    #[command(flatten, next_help_heading = "Serving certificates")]
    tls: TlsArgs,
    /// File of certificate authorities in PEM whose client certificates are accepted, besides the
    /// plane's own: the common name is the user, the organizations are the groups. It is read again
    /// when it changes
    #[arg(long, value_name = "FILE", help_heading = "Authentication")]
    client_ca_file: Option<PathBuf>,
    /// File of bearer tokens, with one `token,user,uid,"group1,group2"` per line
    #[arg(long, value_name = "FILE", help_heading = "Authentication")]
    token_auth_file: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Encryption at rest")]
    encryption: EncryptionArgs,
    #[command(flatten, next_help_heading = "Authentication")]
    request_header: RequestHeaderArgs,
    #[command(flatten, next_help_heading = "Authentication")]
    service_accounts: ServiceAccountArgs,
    #[command(flatten, next_help_heading = "Authentication")]
    oidc: OidcArgs,
    #[command(flatten, next_help_heading = "Authentication")]
    token_webhook: TokenWebhookArgs,
    /// Whether requests without credentials are those of the user `system:anonymous`, who may read
    /// health and version; otherwise they are refused [default: true, but false with the authorization
    /// mode `AlwaysAllow`]
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = "Authentication"
    )]
    anonymous_auth: Option<bool>,
    #[command(flatten, next_help_heading = "Authorization")]
    authorization: AuthorizationArgs,
    #[command(flatten, next_help_heading = "Audit")]
    audit: AuditArgs,
    /// Network from which cluster IPs of services are allocated
    #[arg(
        long,
        value_name = "CIDR",
        default_value = "10.0.0.0/24",
        help_heading = "APIs and admission"
    )]
    service_cidr: String,
    /// Built-in APIs to turn on and off, as with kube-apiserver: `GROUP/VERSION=true|false`,
    /// `GROUP/VERSION/RESOURCE=true|false`, `api/all`, `api/ga`, `api/beta` or `api/alpha`; for
    /// example `storagemigration.k8s.io/v1beta1=true`
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = "APIs and admission")]
    runtime_config: Vec<String>,
    /// Admission plugins to run in addition to kube-apiserver's defaults, with kube-apiserver's
    /// names. `ServiceAccount` always runs, but rejects a pod whose account does not exist only if
    /// it is named here or the controller `serviceaccount` runs, which creates `default`
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = "APIs and admission")]
    enable_admission_plugins: Vec<String>,
    /// Admission plugins not to run
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = "APIs and admission")]
    disable_admission_plugins: Vec<String>,
    #[command(flatten, next_help_heading = "Limits")]
    flow_control: FlowControlArgs,
}

/// Runs a plane until a signal stops it.
pub(crate) async fn run(args: UpArgs, started: Instant) -> Result<()> {
    reject_unsupported(&args)?;
    let selection = Selection::parse(&args.controllers)?;
    let operators = operators::Selected::parse(&args.with)?;
    let controllers_note = controllers_note(&selection, args.nodes);
    let mut signals = StopSignals::listen()?;
    file_size_limit::survive()?;
    let config = config(&args)?;
    let store = config.store.clone();
    let data_dir = match &store {
        StoreConfig::Embedded(directory) => Some(directory.as_path()),
        StoreConfig::Memory => None,
    };
    let config = ClusterConfig {
        server: config,
        controllers: selection,
        nodes: args.nodes.into(),
        termination: POD_TERMINATION,
        ..ClusterConfig::default()
    };
    let cluster = Cluster::start_server(config)
        .await
        .map_err(|error| start_error::explain(error, data_dir))?;
    let served =
        serve(&args, &cluster, &operators, &store, controllers_note, started, &mut signals).await;
    // The store must be closed also if an operator or the announcement failed.
    let stopped = cluster.stop().await.context("some tasks did not stop in time");
    served.and(stopped)
}

/// Waits for the controllers, starts the operators, announces the plane, and returns when a signal asks for its end.
async fn serve(
    args: &UpArgs,
    cluster: &Cluster,
    operators: &operators::Selected,
    store: &StoreConfig,
    controllers_note: Option<&str>,
    started: Instant,
    signals: &mut StopSignals,
) -> Result<()> {
    tokio::select! {
        biased;
        () = signals.recv() => {
            print_note("stopping");
            return Ok(());
        }
        () = with_note(started, Some("starting the controllers"), cluster.wait_until_ready()) => {}
    }
    let server = cluster.server();
    let authority = server.watch_served_authority();
    let note = operators.note();
    let operators = with_note(started, note.as_deref(), operators.start(server, store)).await?;
    let announced = announce(args, server, controllers_note, operators.notes(), started);
    if let Ok(access) = &announced {
        let files = match store {
            StoreConfig::Embedded(directory) => Some(AuthorityFiles::new(&directory.join("pki"))),
            StoreConfig::Memory => None,
        };
        tokio::select! {
            () = signals.recv() => {}
            () = access.follow(args, server, authority, files) => {}
        }
        print_note("stopping");
    }
    let stopped = operators.stop().await.context("some operators did not stop in time");
    announced.map(drop).and(stopped)
}

/// Waits for a part of the start, and prints the note if the start takes more than a moment.
async fn with_note<T>(started: Instant, note: Option<&str>, part: impl Future<Output = T>) -> T {
    let mut part = pin!(part);
    if let Ok(done) = timeout_at(started + SILENT_START, &mut part).await {
        return done;
    }
    if let Some(note) = note {
        print_note(note);
    }
    part.await
}

/// How the plane is reached.
struct Access {
    url: String,
    /// The kubeconfig.
    path: PathBuf,
}

impl Access {
    /// Writes the kubeconfig again whenever the plane's authority changes, so that the administrator
    /// does not depend on an authority that is about to be removed, and then records that the change is
    /// complete, for which `sampan certs` waits. Does not return.
    async fn follow(
        &self,
        args: &UpArgs,
        server: &Server,
        mut authority: Receiver<String>,
        files: Option<AuthorityFiles>,
    ) {
        loop {
            let bundle = authority.borrow_and_update().clone();
            if let Some(Err(error)) = files.as_ref().map(|it| it.set_served(&bundle)) {
                tracing::warn!(%error, "cannot record that the certificate authority is used");
            }
            if authority.changed().await.is_err() {
                return std::future::pending().await;
            }
            let path = self.path.display();
            match write_kubeconfig(&self.path, server, &self.url, args) {
                Ok(_) => print_note(&format!(
                    "the certificate authority has changed: kubeconfig {path} was written again"
                )),
                Err(error) => print_note(&format!(
                    "the certificate authority has changed, but the kubeconfig was not written: \
                     {error:#}"
                )),
            }
        }
    }
}

/// Writes the kubeconfig and prints how to reach the plane.
fn announce(
    args: &UpArgs,
    server: &Server,
    controllers_note: Option<&str>,
    operators: Vec<String>,
    started: Instant,
) -> Result<Access> {
    let url = server_url(server.address().context("the server does not listen")?);
    let path = match &args.kubeconfig {
        Some(path) => path.clone(),
        None => kubeconfig::default_path()?,
    };
    let Merged { previous_server, is_current } = write_kubeconfig(&path, server, &url, args)?;
    print_line(&url)?;
    print_note(&format!("kubeconfig {} (context {NAME})", path.display()));
    if let Some(previous) = previous_server.filter(|it| *it != url) {
        print_note(&format!("context {NAME} previously named {previous}"));
    }
    if !is_current {
        let option = match &args.kubeconfig {
            Some(path) => format!(" --kubeconfig {}", path.display()),
            None => String::new(),
        };
        print_note(&format!(
            "another context is the current one: kubectl config{option} use-context {NAME}"
        ));
    }
    if let Some(note) = nodes_note(args.nodes) {
        print_note(&note);
    }
    if let Some(note) = controllers_note {
        print_note(note);
    }
    for note in operators {
        print_note(&note);
    }
    print_line(&format!("ready in {} ms", milliseconds(started.elapsed())))?;
    Ok(Access { url, path })
}

fn parse_nodes(text: &str) -> Result<u16, String> {
    let count = text.parse().ok().filter(|it| *it <= 10_000);
    count.ok_or_else(|| "a number from 0 to 10000".to_owned())
}

fn parse_bytes(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "a number of bytes, as in 1073741824".to_owned())
}

/// Says that nodes are simulated.
fn nodes_note(count: u16) -> Option<String> {
    let nodes = match count {
        0 => return None,
        1 => "1 simulated node".to_owned(),
        count => format!("{count} simulated nodes"),
    };
    Some(format!("{nodes}: pods have a status, but no containers run"))
}

/// Fails on a flag of a feature that does not exist yet, which is never ignored silently.
fn reject_unsupported(args: &UpArgs) -> Result<()> {
    if !args.etcd.is_empty() {
        bail!("--etcd is not supported yet: omit it to use the embedded store");
    }
    Ok(())
}

fn config(args: &UpArgs) -> Result<Config> {
    let store = if args.in_memory {
        StoreConfig::Memory
    } else {
        StoreConfig::Embedded(match &args.data_dir {
            Some(directory) => directory.clone(),
            None => default_data_dir()?,
        })
    };
    let client_authorities = match &args.client_ca_file {
        Some(path) => ClientAuthorities::read(path)
            .context("name a file of certificates with --client-ca-file")?,
        None => ClientAuthorities::default(),
    };
    let tokens = match &args.token_auth_file {
        Some(path) => TokenFile::read(path).map_err(start_error::explain_token_file)?,
        None => TokenFile::default(),
    };
    let oidc = args.oidc.settings()?;
    args.flow_control.apply(Config {
        listen: Some(args.listen.address),
        serving_names: args.listen.serving_names(),
        tls: args.tls.settings()?,
        store,
        encryption: args.encryption.settings(),
        quota_bytes: args.quota_backend_bytes.unwrap_or_else(|| memory_limit::bytes() / 6),
        client_authorities,
        request_header: args.request_header.settings()?,
        tokens,
        service_accounts: args.service_accounts.settings()?,
        anonymous: anonymous(args, oidc.as_ref())?,
        oidc,
        token_webhook: args.token_webhook.settings()?,
        authorizers: args.authorization.authorizers()?,
        audit: args.audit.settings()?,
        service_cidr: args.service_cidr.clone(),
        enabled_plugins: args.enable_admission_plugins.clone(),
        disabled_plugins: args.disable_admission_plugins.clone(),
        runtime_config: args.runtime_config.clone(),
        ..Config::default()
    })
}

/// Upstream: `ApplyAuthorization`, by which requests without credentials are refused with the mode
/// `AlwaysAllow`, whatever the flag says. A configuration file and the flag exclude each other.
fn anonymous(args: &UpArgs, oidc: Option<&OidcSettings>) -> Result<Anonymous> {
    if let Some(configured) = oidc.and_then(|it| it.configuration.anonymous.as_ref()) {
        if args.anonymous_auth.is_some() {
            bail!(
                "anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is \
                 configured in authentication configuration file"
            );
        }
        return Ok(configured.into());
    }
    let allows_all = args.authorization.allows_all();
    if allows_all && args.anonymous_auth == Some(true) {
        print_note(
            "anonymous requests are refused: --anonymous-auth does not apply with the \
             authorization mode AlwaysAllow",
        );
    }
    let accepts = !allows_all && args.anonymous_auth.unwrap_or(true);
    Ok(if accepts { Anonymous::Accepted } else { Anonymous::Refused })
}

/// `$XDG_DATA_HOME/sampan`, or the equivalent directory of the platform.
pub(super) fn default_data_dir() -> Result<PathBuf> {
    let from = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let home = || from("HOME");
    let directory = if cfg!(target_os = "macos") {
        home().map(|it| it.join("Library/Application Support"))
    } else {
        from("XDG_DATA_HOME").or_else(|| home().map(|it| it.join(".local/share")))
    };
    let directory =
        directory.context("there is no home directory: use --data-dir or --in-memory")?;
    Ok(directory.join("sampan"))
}

fn write_kubeconfig(path: &Path, server: &Server, url: &str, args: &UpArgs) -> Result<Merged> {
    let admin = server.admin()?;
    // The kubeconfig has only the authority of the plane, whose certificate is presented for this name
    // if another one is presented for the host.
    let is_own = args.tls.settings()?.serving == ServingSource::Issued;
    let tls_server_name = (!is_own).then(|| LOOPBACK_NAME.to_owned());
    let entry = Entry {
        cluster: NAME.to_owned(),
        server: url.to_owned(),
        certificate_authority: server.authority(),
        tls_server_name,
        user: NAME.to_owned(),
        client_certificate: admin.certificate,
        client_key: admin.key,
        context: NAME.to_owned(),
    };
    Ok(kubeconfig::merge_into(path, &entry)?)
}

fn milliseconds(duration: Duration) -> String {
    format!("{:.1}", duration.as_secs_f64() * 1000.0)
}
