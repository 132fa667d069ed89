//! The help text of `sampan up`: its examples, and the flags of its short form.

use clap::Arg;

pub(super) const EXAMPLES: &str = "Examples:
  sampan up                                   stores its objects in the data directory
  sampan up --in-memory --listen 127.0.0.1:0 --kubeconfig ./kubeconfig
                                              for a test: stores nothing, on a free port
  sampan up --listen 0.0.0.0:6443             reachable from other machines as well
  sampan up --with custompod                  with an operator: kubectl apply -f your CustomPods
  sampan up --data-dir ./plane --kubeconfig ./kubeconfig
  kubectl --kubeconfig ./kubeconfig get namespaces
                                              with that plane";

/// The flags of `sampan up -h`. `--help` has all.
const SHORT: [&str; 8] =
    ["listen", "data_dir", "in_memory", "kubeconfig", "nodes", "controllers", "with", "log"];

/// Leaves the other flags out of the short form.
pub(super) fn for_short_help(flag: Arg) -> Arg {
    let is_short = SHORT.contains(&flag.get_id().as_str());
    flag.hide_short_help(!is_short)
}
