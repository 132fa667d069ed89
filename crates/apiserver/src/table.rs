//! Tables: objects as rows of cells, which is what `kubectl get` prints.

use crate::catalog::Served;
use crate::context::Cx;
use kinds::resource::{Columns, Now, PathColumn};
use machinery::{Object, Status, Value, json, timestamp};
use std::sync::Arc;

const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

/// What a row shows besides its cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Include {
    Metadata,
    Object,
    None,
}

/// A Table of `objects`, which are in the asked-for version.
pub(crate) fn table(cx: &Cx, metadata: &Value, objects: Vec<Object>) -> Result<Value, Status> {
    let writer = RowWriter::new(cx)?;
    let rows: Vec<Value> = objects.into_iter().map(|it| writer.row(it)).collect();
    Ok(around(cx, metadata, rows))
}

/// The Table around these rows.
pub(crate) fn around(cx: &Cx, metadata: &Value, rows: Vec<Value>) -> Value {
    let columns = &cx.version().columns;
    // Upstream: Tables that show times and no ages come from somewhere else, where no list is made
    // until there is something to put into it.
    let rows = if rows.is_empty() && shows_times(columns) { Value::Null } else { rows.into() };
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": definitions(columns), "rows": rows,
    })
}

fn shows_times(columns: &Columns) -> bool {
    matches!(columns, Columns::Fixed(all, _) if all.iter().any(|it| it.name == "Created At"))
}

/// The same for one event of a watch: only the first of a watch names the columns.
pub(crate) fn event(cx: &Cx, object: Object, with_columns: bool) -> Result<Value, Status> {
    let metadata = json!({"resourceVersion": object.resource_version()});
    let mut table = table(cx, &metadata, vec![object])?;
    if !with_columns {
        table["columnDefinitions"] = Value::Null;
    }
    Ok(table)
}

/// Makes rows of objects.
pub(crate) struct RowWriter {
    include: Include,
    now: Now,
    served: Arc<Served>,
    version: usize,
}

impl RowWriter {
    /// For the rows that a request asks for.
    pub(crate) fn new(cx: &Cx) -> Result<Self, Status> {
        let include = match cx.query.text("includeObject") {
            "" | "Metadata" => Include::Metadata,
            "Object" => Include::Object,
            "None" => Include::None,
            other => {
                let other = machinery::field_path::quote(other);
                return Err(Status::bad_request(format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: {other}: must be 'Metadata', 'Object', 'None', or empty"
                )));
            }
        };
        let now = Now { unix_seconds: cx.plane.clock.now().seconds() };
        Ok(Self { include, now, served: Arc::clone(&cx.served), version: cx.version })
    }

    /// The row of an object in the asked-for version.
    pub(crate) fn row(&self, object: Object) -> Value {
        let cells = cells(&self.served.version(self.version).columns, &object, self.now);
        let object = match self.include {
            Include::Metadata => crate::answer::partial(object),
            Include::Object => object.into_value(),
            Include::None => Value::Null,
        };
        json!({"cells": cells, "object": object})
    }
}

fn cells(columns: &Columns, object: &Object, now: Now) -> Vec<Value> {
    match columns {
        Columns::Fixed(_, row) => row(object, &now),
        Columns::Paths(columns) => {
            let mut cells = Vec::with_capacity(columns.len() + 1);
            cells.push(object.name().into());
            let whole = Value::Object(object.map().clone());
            cells.extend(columns.iter().map(|it| cell(it, &whole, now)));
            cells
        }
    }
}

/// Upstream: only the first match counts, and a value of another type than the column's is null.
fn cell(column: &PathColumn, object: &Value, now: Now) -> Value {
    let found = column.path.find(object);
    let Some(value) = found.first() else { return Value::Null };
    match (column.kind.as_str(), value) {
        ("integer", Value::Number(number)) => match number.as_i64() {
            Some(number) => number.into(),
            #[allow(clippy::cast_possible_truncation, reason = "as Go truncates it")]
            None => number.as_f64().map_or(Value::Null, |it| (it as i64).into()),
        },
        ("number", Value::Number(_))
        | ("boolean", Value::Bool(_))
        | ("string", Value::String(_)) => (*value).clone(),
        ("string", Value::Null) => Value::Null,
        ("string", other) => other.to_string().into(),
        ("date", Value::String(text)) => match timestamp::parse(text) {
            Some((seconds, _)) => timestamp::human_duration(now.unix_seconds - seconds).into(),
            None => "<invalid>".into(),
        },
        _ => Value::Null,
    }
}

fn definitions(columns: &Columns) -> Vec<Value> {
    let definition = |name: &str, kind: &str, format: &str, description: &str, priority: i32| {
        json!({"name": name, "type": kind, "format": format, "description": description,
            "priority": priority})
    };
    match columns {
        Columns::Fixed(columns, _) => columns
            .iter()
            .map(|it| definition(it.name, it.kind, it.format, it.description, it.priority))
            .collect(),
        Columns::Paths(columns) => {
            let mut all = vec![definition("Name", "string", "name", NAME, 0)];
            all.extend(columns.iter().map(|it| {
                definition(&it.name, &it.kind, &it.format, &it.description, it.priority)
            }));
            all
        }
    }
}
