//! [`Managed`]: the entries of `metadata.managedFields`, one for each manager.
//!
//! A manager is identified by its name, its operation, the subresource, and, for the operation
//! Update, the version. An entry that a request does not change is encoded as it was decoded.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::element::ParseElementError;
use super::set::Set;
use crate::field_path::quote;
use crate::{Map, Value, timestamp};

/// The maximum number of entries with the operation Update; the oldest are merged.
const UPDATERS_MAX: usize = 10;
/// Upstream's name for the manager of merged entries.
const ANCIENT_CHANGES: &str = "ancient-changes";

/// How a manager changes objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// The fields of one manager.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) manager: String,
    pub(super) operation: Operation,
    pub(super) api_version: String,
    pub(super) subresource: String,
    pub(super) time: Option<String>,
    pub(super) set: Set,
    /// The JSON from which the entry was decoded; None once the entry was changed.
    raw: Option<Value>,
}

/// Why entries cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The operation is unknown.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// The version of the fields is missing.
    #[error("apiVersion must not be empty")]
    ApiVersion,
    /// The format of the fields is not `FieldsV1`.
    #[error("{}", match .kind.as_str() {
        "" => format!("missing fieldsType in managed fields entry {index}"),
        kind => format!("invalid fieldsType {} in managed fields entry {index}", quote(kind)),
    })]
    FieldsType {
        /// Which entry, counted from zero.
        index: usize,
        /// The value of `fieldsType`.
        kind: String,
    },
    /// `fieldsV1` is malformed.
    #[error("error decoding set")]
    Fields(#[from] ParseElementError),
}

impl Entry {
    pub(super) fn new(manager: &str, operation: Operation, api_version: &str) -> Self {
        Self {
            manager: manager.to_owned(),
            operation,
            api_version: api_version.to_owned(),
            subresource: String::new(),
            time: None,
            set: Set::new(),
            raw: None,
        }
    }

    fn decode(index: usize, raw: Value) -> Result<Self, DecodeError> {
        let text = |key| raw.get(key).and_then(Value::as_str).unwrap_or_default();
        let operation = match text("operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err(DecodeError::Operation),
        };
        if text("apiVersion").is_empty() {
            return Err(DecodeError::ApiVersion);
        }
        if text("fieldsType") != "FieldsV1" {
            return Err(DecodeError::FieldsType { index, kind: text("fieldsType").to_owned() });
        }
        Ok(Self {
            manager: text("manager").to_owned(),
            operation,
            api_version: text("apiVersion").to_owned(),
            subresource: text("subresource").to_owned(),
            time: raw.get("time").and_then(Value::as_str).map(str::to_owned),
            set: raw.get("fieldsV1").map_or(Ok(Set::new()), Set::parse)?,
            raw: Some(raw),
        })
    }

    fn encode(self) -> Value {
        if let Some(raw) = self.raw {
            return raw;
        }
        let mut map = Map::new();
        for (key, text) in [
            ("manager", self.manager.as_str()),
            ("operation", self.operation.as_str()),
            ("apiVersion", &self.api_version),
            ("time", self.time.as_deref().unwrap_or_default()),
            ("fieldsType", "FieldsV1"),
            ("subresource", &self.subresource),
        ] {
            if !text.is_empty() {
                map.insert(key.to_owned(), text.into());
            }
        }
        map.insert("fieldsV1".to_owned(), self.set.to_value());
        Value::Object(map)
    }

    /// Whether both entries belong to the same manager.
    pub(super) fn has_same_manager(&self, other: &Self) -> bool {
        self.identifier() == other.identifier()
    }

    /// The identity of a manager. An applier is the same manager in all versions.
    pub(super) fn identifier(&self) -> (Operation, &str, &str, &str) {
        let version = match self.operation {
            Operation::Apply => "",
            Operation::Update => self.api_version.as_str(),
        };
        (self.operation, &self.manager, &self.subresource, version)
    }

    /// Sets the owned fields, whose paths are those of `api_version`.
    pub(super) fn set_owned(&mut self, set: Set, api_version: &str) {
        if self.set != set || self.api_version != api_version {
            api_version.clone_into(&mut self.api_version);
            self.replace_owned(set);
        }
    }

    /// Removes fields from the owned ones.
    pub(super) fn remove_owned(&mut self, fields: &Set) {
        if !self.set.intersection(fields).is_empty() {
            let set = std::mem::take(&mut self.set);
            self.replace_owned(set.difference(fields));
        }
    }

    /// Sets the owned fields, which differ from the former ones.
    pub(super) fn replace_owned(&mut self, set: Set) {
        self.set = set;
        self.raw = None;
    }

    /// Sets the time of the last change of the owned fields.
    pub(super) fn set_time(&mut self, now: &str) {
        if self.time.as_deref() != Some(now) {
            self.time = Some(now.to_owned());
            self.raw = None;
        }
    }

    fn seconds(&self) -> i64 {
        let time = self.time.as_deref().and_then(timestamp::parse);
        time.map_or(0, |(seconds, _)| seconds)
    }
}

/// See the [module documentation](self).
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Managed {
    pub(super) entries: Vec<Entry>,
}

impl Managed {
    /// Decodes a list of entries. If a manager has several entries, the last counts.
    pub(super) fn decode(list: Vec<Value>) -> Result<Self, DecodeError> {
        let mut entries = Vec::with_capacity(list.len());
        for (index, raw) in list.into_iter().enumerate() {
            entries.push(Entry::decode(index, raw)?);
        }
        let mut seen = HashSet::with_capacity(entries.len());
        let is_last: Vec<bool> =
            entries.iter().rev().map(|it| seen.insert(it.identifier())).collect();
        let mut is_last = is_last.into_iter().rev();
        entries.retain(|_| is_last.next() == Some(true));
        Ok(Self { entries })
    }

    /// The list of entries in upstream's order; None if it is empty.
    pub(super) fn encode(mut self) -> Option<Value> {
        self.entries.sort_by(|a, b| {
            let key = |it: &Entry| (it.operation, it.seconds());
            key(a)
                .cmp(&key(b))
                .then_with(|| a.manager.cmp(&b.manager))
                .then_with(|| a.api_version.cmp(&b.api_version))
                .then_with(|| a.subresource.cmp(&b.subresource))
        });
        let list: Vec<Value> = self.entries.into_iter().map(Entry::encode).collect();
        (!list.is_empty()).then_some(Value::Array(list))
    }

    /// The entry of that manager, created if it is missing.
    pub(super) fn entry(&mut self, of: &Entry) -> &mut Entry {
        let at = self.entries.iter().position(|it| it.has_same_manager(of));
        let at = at.unwrap_or_else(|| {
            self.entries.push(Entry { set: Set::new(), raw: None, ..of.clone() });
            self.entries.len() - 1
        });
        &mut self.entries[at]
    }

    /// Drops the managers that own nothing.
    pub(super) fn drop_empty(&mut self) {
        self.entries.retain(|it| !it.set.is_empty());
    }

    /// Merges the oldest of too many entries with the operation Update, separately for each
    /// version.
    pub(super) fn limit_updaters(&mut self) {
        let is_updater = |it: &Entry| it.operation == Operation::Update;
        let mut excess =
            self.entries.iter().filter(|it| is_updater(it)).count().saturating_sub(UPDATERS_MAX);
        if excess == 0 {
            return;
        }
        let (mut updaters, appliers): (Vec<Entry>, Vec<Entry>) =
            std::mem::take(&mut self.entries).into_iter().partition(is_updater);
        updaters.sort_by(|a, b| {
            fn rest(it: &Entry) -> (&str, &str, &str) {
                (&it.manager, &it.api_version, &it.subresource)
            }
            a.seconds().cmp(&b.seconds()).then_with(|| rest(a).cmp(&rest(b)))
        });
        // The oldest entry of each version takes in the others; without others it stays unchanged.
        let mut kept: Vec<Entry> = Vec::new();
        let mut oldest_of_version: HashMap<String, usize> = HashMap::new();
        let mut merged: BTreeMap<usize, Vec<Set>> = BTreeMap::new();
        for updater in updaters {
            let oldest = oldest_of_version.get(&updater.api_version).filter(|_| excess > 0);
            let Some(&at) = oldest else {
                oldest_of_version.entry(updater.api_version.clone()).or_insert(kept.len());
                kept.push(updater);
                continue;
            };
            excess -= 1;
            merged.entry(at).or_default().push(updater.set);
            kept[at].time = updater.time;
        }
        for (at, mut sets) in merged {
            let mut ancient = Entry::new(ANCIENT_CHANGES, Operation::Update, &kept[at].api_version);
            sets.push(std::mem::take(&mut kept[at].set));
            ancient.set = Set::union_all(sets);
            ancient.time = kept[at].time.take();
            kept[at] = ancient;
        }
        self.entries = appliers.into_iter().chain(kept).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn update(manager: &str, version: &str, time: &str, field: &str) -> Value {
        json!({"manager": manager, "operation": "Update", "apiVersion": version, "time": time,
            "fieldsType": "FieldsV1", "fieldsV1": {field: {}}})
    }

    fn managed(list: Value) -> Result<Managed, DecodeError> {
        let Value::Array(list) = list else { unreachable!("tests write lists") };
        Managed::decode(list)
    }

    #[test]
    fn entries_are_sorted_by_operation_time_and_name() {
        let apply = json!({"manager": "z", "operation": "Apply", "apiVersion": "v1",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}});
        let late = update("a", "v1", "2024-01-01T00:00:02Z", "f:b");
        let early = update("b", "v1", "2024-01-01T00:00:01Z", "f:c");
        let it = managed(json!([late, early, apply])).unwrap();
        assert_eq!(it.encode(), Some(json!([apply, early, late])));
    }

    #[test]
    fn entries_that_cannot_be_decoded_are_reported() {
        let why = |entry| managed(json!([entry])).unwrap_err().to_string();
        assert_eq!(why(json!({})), "operation must be `Apply` or `Update`");
        assert_eq!(why(json!({"operation": "Apply"})), "apiVersion must not be empty");
        assert_eq!(
            why(json!({"operation": "Apply", "apiVersion": "v1", "fieldsType": "V2"})),
            r#"invalid fieldsType "V2" in managed fields entry 0"#
        );
    }

    #[test]
    fn the_oldest_of_too_many_updaters_of_a_version_are_merged() {
        let list: Vec<Value> = (0..12)
            .map(|n| {
                let version = if n == 1 { "v2" } else { "v1" };
                let time = format!("2024-01-01T00:00:{n:02}Z");
                update(&format!("m{n:02}"), version, &time, &format!("f:{n}"))
            })
            .collect();
        let mut it = Managed::decode(list).unwrap();
        it.limit_updaters();
        let entries = it.encode().unwrap();
        let names: Vec<&str> =
            entries.as_array().unwrap().iter().filter_map(|it| it["manager"].as_str()).collect();
        let rest = ["m04", "m05", "m06", "m07", "m08", "m09", "m10", "m11"];
        assert_eq!(names, [&["m01", ANCIENT_CHANGES], &rest[..]].concat());
        assert_eq!(
            entries[1],
            json!({"manager": ANCIENT_CHANGES, "operation": "Update", "apiVersion": "v1",
                "time": "2024-01-01T00:00:03Z", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:0": {}, "f:2": {}, "f:3": {}}})
        );
    }
}
