//! [`RequestLabels`]: the labels of request metrics, as kube-apiserver has them.
//!
//! Each label has a bounded number of values: names from the catalog, or those listed in this file.
//! Names that a client makes up are never label values, however early the request is refused, since
//! every set of labels stays in memory and in every scrape.

use prometheus_client::encoding::EncodeLabelSet;

/// See the [module documentation](self). In alphabetical order, as Go's client writes them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, EncodeLabelSet)]
pub(crate) struct RequestLabels {
    /// `apiserver`, or "" for paths that another component counts.
    pub component: &'static str,
    /// `All`, `invalid`, or "".
    pub dry_run: &'static str,
    /// The API group.
    pub group: String,
    /// The plural name of the resource.
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
    /// Whether the size of the response is recorded. Upstream: endpoints/metrics `MonitorRequest`.
    pub(super) fn records_size(&self) -> bool {
        matches!(self.verb, "GET" | "LIST")
    }
}
