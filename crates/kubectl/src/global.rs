//! [`GlobalArgs`]: the flags that every verb has, which say where the cluster is and who asks.

use std::path::PathBuf;
use std::time::Duration;

use machinery::go_duration;

use crate::flags::with_bool_values;

// No documentation: it would become the help of each verb.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(mut_args(with_bool_values), next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// Kubeconfig to use [default: $KUBECONFIG or ~/.kube/config]
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
    /// Cluster of the kubeconfig
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true)]
    pub cluster: Option<String>,
    /// User of the kubeconfig
    // Not global: below `create`, the flag is the subject of a binding.
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub user: Option<String>,
    /// Namespace of the request
    #[arg(long, short, global = true, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Address of the API server
    #[arg(long, short, global = true, value_name = "URL")]
    pub server: Option<String>,
    /// Bearer token
    #[arg(long, global = true, value_name = "TOKEN")]
    pub token: Option<String>,
    /// User to act as
    #[arg(long = "as", global = true, value_name = "USER")]
    pub act_as: Option<String>,
    /// Group to act as; repeat it for each group
    #[arg(long = "as-group", global = true, value_name = "GROUP")]
    pub act_as_groups: Vec<String>,
    /// UID to act as
    #[arg(long = "as-uid", global = true, value_name = "UID", hide_short_help = true)]
    pub act_as_uid: Option<String>,
    /// Certificate authorities that verify the server
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub certificate_authority: Option<PathBuf>,
    /// Client certificate
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub client_certificate: Option<PathBuf>,
    /// Key of the client certificate
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub client_key: Option<PathBuf>,
    /// Accept any certificate of the server
    #[arg(long, global = true, hide_short_help = true)]
    pub insecure_skip_tls_verify: bool,
    /// Name in the server's certificate
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true)]
    pub tls_server_name: Option<String>,
    /// Time limit of one request, such as 5s; 0 is no limit
    #[arg(long, global = true, value_name = "DURATION", default_value = "0", value_parser = parse_timeout)]
    pub request_timeout: Option<Duration>,
    /// Accepted and ignored: nothing is cached on disk
    #[arg(long, global = true, value_name = "DIR", hide = true)]
    pub cache_dir: Option<PathBuf>,
    /// Accepted and ignored: requests are not logged
    #[arg(long, short, global = true, value_name = "LEVEL", hide = true)]
    pub v: Option<u8>,
    /// Accepted and ignored: the client is not older or newer than itself
    #[arg(long, global = true, hide = true)]
    pub match_server_version: bool,
}

impl GlobalArgs {
    /// The time limit of one request, if there is one.
    pub(crate) fn request_timeout(&self) -> Option<Duration> {
        self.request_timeout.filter(|it| !it.is_zero())
    }
}

/// Parses a number of seconds, or a duration in Go's notation.
pub(crate) fn parse_timeout(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    go_duration::parse_duration(text).map_err(|_| {
        format!(
            "Invalid timeout value {text:?}. Timeout must be a single integer in seconds, or an \
             integer followed by a corresponding time unit (e.g. 1s | 2m | 3h)"
        )
    })
}
