//! How the caches of a manager fare.

use informer::{ReflectorStatus, SharedInformer};

use super::{float, head, label, line};

/// The families of all caches, which are named by the text of their scope.
pub(super) fn render(text: &mut String, informers: &[(String, SharedInformer)]) {
    let reports = informers.iter().map(|(scope, informer)| {
        (label("resource", scope), informer.reflector_status().borrow().clone(), informer)
    });
    let rows: Vec<(String, ReflectorStatus, &SharedInformer)> = reports.collect();
    let mut family = |name: &str,
                      kind: &str,
                      help: &str,
                      value: fn(&ReflectorStatus, &SharedInformer) -> u64| {
        let name = format!("sampan_cache_{name}");
        head(text, &name, kind, help);
        for (label, report, informer) in &rows {
            line(text, &name, label, float(value(report, informer)));
        }
    };
    family("objects", "gauge", "Objects in the cache", |_, it| it.indexer().len() as u64);
    family("synced", "gauge", "Whether the first list is in the cache", |_, it| {
        u64::from(it.has_synced().get())
    });
    family("failing", "gauge", "Whether it cannot list or watch", |report, _| {
        u64::from(report.last_error.is_some())
    });
    family("failures_total", "counter", "Lists and watches that failed", |it, _| it.failures);
    family("lists_total", "counter", "Lists that were taken over", |it, _| it.lists);
    family("watches_total", "counter", "Watches that were opened", |it, _| it.watches);
    let help = "Objects that could not be cached";
    family("bad_objects_total", "counter", help, |it, _| it.bad_items);
}
