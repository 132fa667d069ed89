//! The number of stored objects of each resource, read from the watch cache at each scrape.

use crate::metrics::exposition;
use crate::metrics::exposition::MetricType;
use crate::storage::catalog::Catalog;

/// Appends the number of objects of each stored resource.
pub(super) fn append(text: &mut String, catalog: &Catalog) {
    let stored = || {
        let resources = catalog.served().iter();
        let served = resources.filter(|it| it.resource.versions.iter().any(|it| it.served));
        served.filter(|it| it.resource.strategy.unstored.is_none())
    };
    let name = "apiserver_resource_objects";
    exposition::append_head(
        text,
        MetricType::Gauge,
        name,
        "Number of stored objects of each resource",
    );
    for served in stored() {
        let resource = &served.resource;
        let labels = [("group", resource.group.as_str()), ("resource", &resource.plural)];
        exposition::append_sample(text, name, &labels, served.cache.snapshot().entries.len());
    }
    let name = "apiserver_storage_objects";
    let help = "Number of stored objects of each resource, which is named with its group";
    exposition::append_head(text, MetricType::Gauge, name, help);
    for served in stored() {
        let resource = served.resource.group_resource().to_string();
        let count = served.cache.snapshot().entries.len();
        exposition::append_sample(text, name, &[("resource", &resource)], count);
    }
}
