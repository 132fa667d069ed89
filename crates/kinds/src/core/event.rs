//! `Event`: something that happened to an object. It is served in two groups, see
//! [`crate::events::event`], and deleted after an hour.

use crate::events::event as events_v1;
use crate::table::{self, selectable};
use crate::validation::rules::{add_invalid, immutable, immutable_struct, qualified_name};
use machinery::fields::{number, part, text, top};
use machinery::{ErrorList, Object, Path, Value, names};
use types::columns::{column, since, wide};
use types::resource::{
    Column, Columns, GarbageCollectionPolicy, Now, Resource, Selectable, Strategy, Version,
};

/// The resource of the kind `Event`.
pub fn resource() -> Resource {
    let core = Version {
        selectable: [
            selectable("involvedObject.kind", ""),
            selectable("involvedObject.namespace", ""),
            selectable("involvedObject.name", ""),
            selectable("involvedObject.uid", ""),
            selectable("involvedObject.apiVersion", ""),
            selectable("involvedObject.resourceVersion", ""),
            selectable("involvedObject.fieldPath", ""),
            selectable("reason", ""),
            selectable("reportingComponent", ""),
            Selectable {
                fallback: Some("reportingComponent"),
                ..table::selectable_as("source", "source.component", "")
            },
            selectable("type", ""),
        ]
        .into(),
        ..table::v1("core/v1.Event", Columns::Fixed(COLUMNS, cells))
    };
    let mut resource = Resource {
        short_names: vec!["ev".to_owned()],
        ttl_seconds: Some(3600),
        ..table::resource("", "Event", "events", &STRATEGY, core)
    };
    resource.versions.push(events_v1::version(Columns::Fixed(COLUMNS, cells_of_events_group)));
    resource
}

static STRATEGY: Strategy = Strategy {
    validate_in: Some(validate_in),
    validate_name: names::path_segment,
    create_on_update: true,
    garbage_collection: GarbageCollectionPolicy::Unsupported,
    convert: Some(events_v1::convert),
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    column(
        "Last Seen",
        "The time since the event was last observed, rounded to its largest units.",
    ),
    column("Type", "The type of the event: Normal or Warning; more types may be added."),
    column("Reason", "The reason of the event: a short word in CamelCase that programs can read."),
    column("Object", "The object that this event is about."),
    wide("Subobject", "The field path of the part of the object that the event is about."),
    wide("Source", "The component that reported the event and, after a comma, its instance."),
    column("Message", "The description of the event for people; programs should not depend on it."),
    wide(
        "First Seen",
        "The time since the event was first observed, rounded to its largest units.",
    ),
    wide("Count", "The number of times this event has occurred."),
    Column { name: "Name", format: "name", ..wide("", "The name of the event.") },
];

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    let series = object.get(&["series"]).filter(|series| series.is_object());
    let at = |key| object.str_at(&[key]);
    let first =
        if at("firstTimestamp").is_empty() { at("eventTime") } else { at("firstTimestamp") };
    let last = match series {
        Some(series) => text(series, "lastObservedTime"),
        None if at("lastTimestamp").is_empty() => first,
        None => at("lastTimestamp"),
    };
    let count = match series {
        Some(series) => number(series, "count"),
        None => object.get(&["count"]).and_then(Value::as_i64).unwrap_or(0).max(1),
    };
    let kind = object.str_at(&["involvedObject", "kind"]).to_lowercase();
    let target = match object.str_at(&["involvedObject", "name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    vec![
        since(last, now).into(),
        at("type").into(),
        at("reason").into(),
        target.into(),
        object.str_at(&["involvedObject", "fieldPath"]).into(),
        reporter(object).into(),
        at("message").trim().into(),
        since(first, now).into(),
        count.into(),
        object.name().into(),
    ]
}

/// The cells of an event in the form of `events.k8s.io`.
fn cells_of_events_group(object: &Object, now: &Now) -> Vec<Value> {
    let mut core = object.clone();
    events_v1::convert(&mut core, events_v1::EVENTS, events_v1::CORE);
    cells(&core, now)
}

fn reporter(object: &Object) -> String {
    let either = |old: &[&str], new| match object.str_at(old) {
        "" => object.str_at(&[new]).to_owned(),
        old => old.to_owned(),
    };
    let component = either(&["source", "component"], "reportingComponent");
    match either(&["source", "host"], "reportingInstance").as_str() {
        "" => component,
        instance => format!("{component}, {instance}"),
    }
}

/// Validates an event by the rules of the group in `version`; `events.k8s.io` is stricter than the
/// core group.
fn validate_in(new: &Object, old: Option<&Object>, version: &str, errors: &mut ErrorList) {
    if version.starts_with("events.k8s.io") && names::path_segment(new.name()).is_empty() {
        let path = Path::root("metadata");
        add_invalid(errors, &path.child("name"), new.name(), names::dns1123_subdomain(new.name()));
    }
    match old {
        _ if !version.starts_with("events.k8s.io") => validate(new, "reportingComponent", errors),
        None => validate_strictly(new, errors),
        Some(old) => validate_update_strictly(new, old, errors),
    }
}

/// The rules of the core group; `reporter` is the field that names the reporting controller, which
/// the two groups call differently.
fn validate(object: &Object, reporter: &str, errors: &mut ErrorList) {
    let namespace = object.namespace();
    let involved_namespace = object.str_at(&["involvedObject", "namespace"]);
    let has_event_time = !object.str_at(&["eventTime"]).is_empty();
    let agrees = match (involved_namespace, has_event_time) {
        ("", true) => matches!(namespace, "default" | "kube-system"),
        ("", false) => matches!(namespace, "" | "default"),
        (_, true) => true,
        (_, false) => namespace == involved_namespace,
    };
    if !agrees {
        let path = Path::root("involvedObject");
        let message = "does not match event.namespace";
        errors.invalid(&path.child("namespace"), involved_namespace, message);
    }
    if !has_event_time {
        return;
    }
    let controller = object.str_at(&["reportingComponent"]);
    required(errors, reporter, controller);
    qualified_name(errors, &Path::root(reporter), controller);
    for (field, limit) in [("reportingInstance", 128), ("action", 128), ("reason", 128)] {
        required(errors, field, object.str_at(&[field]));
        at_most(errors, field, object.str_at(&[field]), limit);
    }
    at_most(errors, "message", object.str_at(&["message"]), 1024);
}

fn required(errors: &mut ErrorList, field: &str, value: &str) {
    crate::validation::rules::required(errors, &Path::root(field), value);
}

/// Limits the length of a text; as upstream, the error shows an empty value.
fn at_most(errors: &mut ErrorList, field: &str, value: &str, limit: usize) {
    if value.len() > limit {
        let message = format!("can have at most {limit} characters");
        errors.invalid(&Path::root(field), "", &message);
    }
}

/// The stricter rules for an event that is created through `events.k8s.io`; `object` has the form
/// of the core group.
fn validate_strictly(object: &Object, errors: &mut ErrorList) {
    validate(object, "reportingController", errors);
    validate_series(object, errors);
    required(errors, "eventTime", object.str_at(&["eventTime"]));
    let kind = object.str_at(&["type"]);
    if !matches!(kind, "Normal" | "Warning") {
        errors.invalid(&Path::root("type"), "", &format!("has invalid value: {kind}"));
    }
    let source = part(top(object, "source"), "component").is_some()
        || part(top(object, "source"), "host").is_some();
    let count = object.get(&["count"]).and_then(Value::as_i64).unwrap_or(0) != 0;
    for (field, is_set) in [
        ("firstTimestamp", !object.str_at(&["firstTimestamp"]).is_empty()),
        ("lastTimestamp", !object.str_at(&["lastTimestamp"]).is_empty()),
        ("count", count),
        ("source", source),
    ] {
        if is_set {
            errors.invalid(&Path::root(field), "", "needs to be unset");
        }
    }
}

/// The stricter rules for an update through `events.k8s.io`: only the series may change.
fn validate_update_strictly(new: &Object, old: &Object, errors: &mut ErrorList) {
    validate(new, "reportingController", errors);
    if top(new, "series") != top(old, "series") {
        validate_series(new, errors);
    }
    for (field, shown) in [
        ("involvedObject", "involvedObject"),
        ("reason", "reason"),
        ("message", "message"),
        ("source", "source"),
        ("firstTimestamp", "firstTimestamp"),
        ("lastTimestamp", "lastTimestamp"),
        ("count", "count"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ] {
        let (path, value, before) = (Path::root(shown), top(new, field), top(old, field));
        match field {
            "involvedObject" | "related" => {
                immutable_struct(errors, &path, "ObjectReference", value, before);
            }
            "source" => immutable_struct(errors, &path, "EventSource", value, before),
            "count" | "firstTimestamp" | "lastTimestamp" | "eventTime" => {
                immutable(errors, &path, value, before);
            }
            _ => {
                // An unset text equals an empty one.
                let text = |value: &Value| Value::from(value.as_str().unwrap_or_default());
                immutable(errors, &path, &text(value), &text(before));
            }
        }
    }
}

fn validate_series(object: &Object, errors: &mut ErrorList) {
    let Some(series) = object.get(&["series"]).filter(|series| series.is_object()) else { return };
    if number(series, "count") < 2 {
        errors.invalid(&Path::root("series.count"), "", "should be at least 2");
    }
    required(errors, "series.lastObservedTime", text(series, "lastObservedTime"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{lines, object, refusals};
    use machinery::json;

    fn check(event: Value, expected: &[&str]) {
        assert_eq!(refusals(&STRATEGY, event), expected);
    }

    #[test]
    fn both_groups_have_the_same_cells() {
        let event = object(json!({"metadata": {"name": "a.1"}, "type": "Normal", "count": 2,
            "involvedObject": {"kind": "Pod", "name": "a"}, "reason": "Pulled", "message": "done",
            "source": {"component": "kubelet"}, "firstTimestamp": "1970-01-01T00:00:00Z"}));
        let now = Now { unix_seconds: 60 };
        let mut of_events_group = event.clone();
        events_v1::convert(&mut of_events_group, events_v1::CORE, events_v1::EVENTS);
        let expected =
            json!(["60s", "Normal", "Pulled", "pod/a", "", "kubelet", "done", "60s", 2, "a.1"]);
        assert_eq!(json!(cells(&event, &now)), expected);
        assert_eq!(json!(cells_of_events_group(&of_events_group, &now)), expected);
    }

    #[test]
    fn an_event_is_in_the_namespace_of_its_object() {
        check(json!({"metadata": {"namespace": "a"}, "involvedObject": {"namespace": "a"}}), &[]);
        check(
            json!({"metadata": {"namespace": "default"}, "involvedObject": {"kind": "Node"}}),
            &[],
        );
        check(
            json!({"metadata": {"namespace": "a"}, "involvedObject": {"namespace": "b"}}),
            &[r#"involvedObject.namespace: Invalid value: "b": does not match event.namespace"#],
        );
    }

    #[test]
    fn an_event_with_an_event_time_needs_reporter_and_action() {
        check(
            json!({"metadata": {"namespace": "a"}, "involvedObject": {"namespace": "a"},
                "eventTime": "2024-05-06T07:08:09.000000Z", "reportingComponent": "example.com/c"}),
            &[
                "reportingInstance: Required value",
                "action: Required value",
                "reason: Required value",
            ],
        );
    }

    #[test]
    fn the_newer_group_refuses_fields_of_the_older() {
        let mut errors = ErrorList::new();
        let event = object(json!({"metadata": {"namespace": "a"}, "type": "Odd", "count": 1,
            "involvedObject": {"namespace": "a"}, "series": {"count": 1}}));
        validate_strictly(&event, &mut errors);
        assert_eq!(
            lines(&errors),
            [
                r#"series.count: Invalid value: "": should be at least 2"#,
                "series.lastObservedTime: Required value",
                "eventTime: Required value",
                r#"type: Invalid value: "": has invalid value: Odd"#,
                r#"count: Invalid value: "": needs to be unset"#,
            ]
        );
    }

    #[test]
    fn the_table_shows_the_newest_time() {
        let event = object(json!({"metadata": {"name": "a.1"}, "type": "Normal", "reason": "R",
            "involvedObject": {"kind": "Pod", "name": "p"}, "message": " done\n",
            "firstTimestamp": "1970-01-01T00:00:00Z", "lastTimestamp": "1970-01-01T00:00:50Z",
            "source": {"component": "kubelet", "host": "n1"}, "count": 3}));
        assert_eq!(
            Value::from(cells(&event, &Now { unix_seconds: 60 })),
            json!(["10s", "Normal", "R", "pod/p", "", "kubelet, n1", "done", "60s", 3, "a.1"])
        );
    }
}
