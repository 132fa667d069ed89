//! [`Access`]: what the operator has requested of a server, and the rules that allow it.
//!
//! The managers of the project's tests append a line for each verb on a resource to the file that
//! `SAMPAN_ACCESS_FILE` names.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::Deserialize;

use machinery::{Value, json};

/// A verb on a resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(crate) struct Access {
    pub(crate) group: String,
    /// With its subresource, as in `pods/status`.
    pub(crate) resource: String,
    pub(crate) verb: String,
}

impl Access {
    fn new(group: &str, resource: &str, verb: &str) -> Self {
        Self { group: group.to_owned(), resource: resource.to_owned(), verb: verb.to_owned() }
    }
}

/// What the operator may do.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct AccessSet {
    accesses: BTreeSet<Access>,
}

impl AccessSet {
    /// Reads the lines of a record.
    pub(crate) fn parse(record: &str) -> Result<Self> {
        let lines = record.lines().filter(|line| !line.trim().is_empty());
        let accesses = lines.map(serde_json::from_str).collect::<Result<_, _>>();
        Ok(Self { accesses: accesses.context("the record of requests is not valid")? })
    }

    /// Adds verbs on a resource.
    pub(crate) fn add(&mut self, group: &str, resource: &str, verbs: &[&str]) {
        self.accesses.extend(verbs.iter().map(|verb| Access::new(group, resource, verb)));
    }

    /// Removes a resource, which another role has.
    pub(crate) fn remove(&mut self, group: &str, resource: &str) {
        self.accesses.retain(|it| it.group != group || it.resource != resource);
    }

    /// Adds `get` for each resource that is cached: after a write, a cache may read one object.
    pub(crate) fn complete_caches(&mut self) {
        let is_watch = |access: &&Access| access.verb == "watch";
        let cached = self.accesses.iter().filter(is_watch);
        let gets = cached.map(|it| Access::new(&it.group, &it.resource, "get"));
        let gets: Vec<Access> = gets.collect();
        self.accesses.extend(gets);
    }

    /// Whether objects of another kind than these, and than Events, are created: they may have owners.
    pub(crate) fn creates_other_than(&self, own: &[(&str, &str)]) -> bool {
        self.accesses.iter().any(|it| {
            let resource = (it.group.as_str(), it.resource.as_str());
            it.verb == "create" && !own.contains(&resource) && it.resource != "events"
        })
    }

    /// The rules: a rule for each group and list of verbs.
    pub(crate) fn rules(&self) -> Vec<Value> {
        let mut verbs: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
        for it in &self.accesses {
            verbs.entry((&it.group, &it.resource)).or_default().push(&it.verb);
        }
        let mut rules: BTreeMap<(&str, Vec<&str>), Vec<&str>> = BTreeMap::new();
        for ((group, resource), mut verbs) in verbs {
            verbs.sort_unstable_by_key(|verb| position(verb));
            rules.entry((group, verbs)).or_default().push(resource);
        }
        let rule = |((group, verbs), resources): ((&str, Vec<&str>), Vec<&str>)| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
        rules.into_iter().map(rule).collect()
    }
}

/// The place of a verb in a rule: reads first.
fn position(verb: &str) -> usize {
    let order = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
    order.iter().position(|it| *it == verb).unwrap_or(order.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_with_the_same_verbs_share_a_rule() {
        let record = r#"{"group":"a.com","resource":"sites","verb":"watch"}
{"group":"a.com","resource":"sites","verb":"list"}
{"group":"a.com","resource":"sites/status","verb":"patch"}

{"group":"a.com","resource":"gates","verb":"list"}
{"group":"a.com","resource":"gates","verb":"watch"}
{"group":"","resource":"pods","verb":"create"}
{"group":"","resource":"pods","verb":"create"}
"#;
        let set = AccessSet::parse(record).unwrap();
        assert_eq!(
            json!(set.rules()),
            json!([
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]},
                {"apiGroups": ["a.com"], "resources": ["gates", "sites"], "verbs": ["list", "watch"]},
                {"apiGroups": ["a.com"], "resources": ["sites/status"], "verbs": ["patch"]},
            ])
        );
        let mut complete = AccessSet::parse(record).unwrap();
        complete.complete_caches();
        assert_eq!(complete.rules()[1]["verbs"], json!(["get", "list", "watch"]));
        assert!(set.creates_other_than(&[("a.com", "sites")]));
        assert!(!set.creates_other_than(&[("", "pods")]));
        assert!(AccessSet::parse("{").is_err());
    }
}
