//! [`RequestLabels`]: what a request is counted under, in kube-apiserver's words.
//!
//! Every label is one of a bounded number of words: names of what the catalog serves, or of what
//! this file lists. Names that a client makes up are never labels, however early the request is
//! refused, since every set of labels stays in memory and in every scrape.

use prometheus_client::encoding::EncodeLabelSet;

/// See the [module documentation](self). In alphabetical order, as Go's client writes them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, EncodeLabelSet)]
pub(crate) struct RequestLabels {
    /// `apiserver`, or "" for paths that another component counts.
    pub component: &'static str,
    /// `All`, or "".
    pub dry_run: &'static str,
    /// The API group.
    pub group: String,
    /// The plural.
    pub resource: String,
    /// `cluster`, `namespace` or `resource`.
    pub scope: &'static str,
    /// The subresource, or "".
    pub subresource: String,
    /// `GET`, `LIST`, `WATCH`, …
    pub verb: &'static str,
    /// The API version.
    pub version: String,
}

impl RequestLabels {
    /// Whether the size of the answer counts. Upstream: endpoints/metrics `MonitorRequest`.
    pub(super) fn is_read(&self) -> bool {
        matches!(self.verb, "GET" | "LIST")
    }
}
