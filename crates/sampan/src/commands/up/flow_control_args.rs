//! [`FlowControlArgs`]: the flags for the number of concurrent requests.

use anyhow::{Result, bail};

use apiserver::{Config, Fairness};

/// See the [module documentation](self).
#[derive(Debug, clap::Args)]
#[allow(clippy::struct_field_names, reason = "the fields have the names of the flags")]
pub(crate) struct FlowControlArgs {
    /// Whether requests wait in the fair queues of priority levels, which the objects of
    /// `flowcontrol.apiserver.k8s.io` configure; otherwise requests beyond a limit are refused
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true",
        action = clap::ArgAction::Set
    )]
    enable_priority_and_fairness: bool,
    /// Maximum number of reads at the same time. Priority levels share the sum of this and
    /// `--max-mutating-requests-inflight`; without them, 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 400)]
    max_requests_inflight: usize,
    /// Maximum number of writes at the same time, see `--max-requests-inflight`
    #[arg(long, value_name = "N", default_value_t = 200)]
    max_mutating_requests_inflight: usize,
}

impl FlowControlArgs {
    /// Adds the settings to those of the server.
    pub(super) fn apply(&self, config: Config) -> Result<Config> {
        let (reads, writes) = (self.max_requests_inflight, self.max_mutating_requests_inflight);
        if self.enable_priority_and_fairness && reads == 0 && writes == 0 {
            bail!(
                "priority levels have no seats: set --max-requests-inflight or \
                 --max-mutating-requests-inflight, or --enable-priority-and-fairness=false"
            );
        }
        let is_fair = self.enable_priority_and_fairness;
        let fairness = if is_fair { Fairness::Enabled } else { Fairness::Disabled };
        Ok(Config { fairness, max_reads: reads, max_writes: writes, ..config })
    }
}
