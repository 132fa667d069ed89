//! Tables: objects as rows of cells, which `kubectl get` prints.

use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::endpoints::context::RequestContext;
use crate::storage::catalog::ServedResource;
use machinery::{Object, Status, Value, json, timestamp};
use types::Ordered;
use types::resource::{Columns, Now, PathColumn};

const NAME_DESCRIPTION: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

/// The object in a row, as requested by `includeObject`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IncludeObjectPolicy {
    Metadata,
    Object,
    None,
}

/// A Table, with its fields in output order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Table<'a> {
    kind: &'static str,
    api_version: &'static str,
    #[serde(serialize_with = "write_list_meta")]
    metadata: Value,
    column_definitions: Option<Vec<ColumnDefinition<'a>>>,
    rows: Option<Vec<Row>>,
}

#[derive(Serialize)]
struct ColumnDefinition<'a> {
    name: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    format: &'a str,
    description: &'a str,
    priority: i32,
}

/// A row of a Table, with its fields in output order.
#[derive(Serialize)]
pub(crate) struct Row {
    cells: Vec<Value>,
    #[serde(serialize_with = "write_object")]
    object: Value,
}

impl Table<'_> {
    /// A Table whose rows are a list, even an empty one, and not null.
    pub(crate) fn with_rows(self) -> Self {
        Self { rows: Some(self.rows.unwrap_or_default()), ..self }
    }
}

fn write_list_meta<S: Serializer>(metadata: &Value, serializer: S) -> Result<S::Ok, S::Error> {
    Ordered::new(types::find("meta/v1.ListMeta"), metadata).serialize(serializer)
}

fn write_object<S: Serializer>(object: &Value, serializer: S) -> Result<S::Ok, S::Error> {
    Ordered::document(object).serialize(serializer)
}

/// A Table of `objects`, which are in the requested version.
pub(crate) fn table<'a>(
    cx: &'a RequestContext,
    metadata: &Value,
    objects: Vec<Object>,
) -> Result<Table<'a>, Status> {
    let writer = RowWriter::new(cx)?;
    let rows: Vec<Row> = objects.into_iter().map(|it| writer.row(it)).collect();
    Ok(from_rows(cx, metadata, rows))
}

/// A Table of one object of another kind than that of the resource, such as its Scale.
pub(crate) fn table_of_columns(
    cx: &RequestContext,
    columns: &'static Columns,
    object: Object,
) -> Result<Table<'static>, Status> {
    let metadata = json!({"resourceVersion": object.resource_version()});
    let row = RowWriter::new(cx)?.row_with(columns, object);
    Ok(with_columns(columns, &metadata, vec![row]))
}

/// A Table of these rows.
pub(crate) fn from_rows<'a>(cx: &'a RequestContext, metadata: &Value, rows: Vec<Row>) -> Table<'a> {
    with_columns(&cx.scope.version().columns, metadata, rows)
}

fn with_columns<'a>(columns: &'a Columns, metadata: &Value, rows: Vec<Row>) -> Table<'a> {
    // Upstream: a Table with creation times instead of ages comes from another converter, in which
    // the rows of an empty Table are null.
    let rows = if rows.is_empty() && shows_times(columns) { None } else { Some(rows) };
    Table {
        kind: "Table",
        api_version: "meta.k8s.io/v1",
        metadata: metadata.clone(),
        column_definitions: Some(column_definitions(columns)),
        rows,
    }
}

fn shows_times(columns: &Columns) -> bool {
    matches!(columns, Columns::Fixed(all, _) if all.iter().any(|it| it.name == "Created At"))
}

/// A Table for one watch event: only the first event of a watch has the columns.
pub(crate) fn event_table(
    cx: &RequestContext,
    object: Object,
    with_columns: bool,
) -> Result<Table<'_>, Status> {
    let metadata = json!({"resourceVersion": object.resource_version()});
    let mut table = table(cx, &metadata, vec![object])?;
    if !with_columns {
        table.column_definitions = None;
    }
    Ok(table)
}

/// Converts objects to rows.
pub(crate) struct RowWriter {
    include: IncludeObjectPolicy,
    now: Now,
    served: Arc<ServedResource>,
    version: usize,
}

impl RowWriter {
    /// The writer for the rows of a request.
    pub(crate) fn new(cx: &RequestContext) -> Result<Self, Status> {
        let include = match cx.query.text("includeObject") {
            "" | "Metadata" => IncludeObjectPolicy::Metadata,
            "Object" => IncludeObjectPolicy::Object,
            "None" => IncludeObjectPolicy::None,
            other => {
                let other = machinery::field_path::quote(other);
                return Err(Status::bad_request(format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: {other}: must be 'Metadata', 'Object', 'None', or empty"
                )));
            }
        };
        let now = Now { unix_seconds: cx.scope.storage.clock.now().seconds() };
        Ok(Self { include, now, served: Arc::clone(&cx.scope.served), version: cx.scope.version })
    }

    /// The row of an object in the requested version.
    pub(crate) fn row(&self, object: Object) -> Row {
        self.row_with(&self.served.version(self.version).columns, object)
    }

    fn row_with(&self, columns: &Columns, object: Object) -> Row {
        let cells = cells(columns, &object, self.now);
        let object = match self.include {
            IncludeObjectPolicy::Metadata => {
                crate::endpoints::object_response::partial_object_metadata(object)
            }
            IncludeObjectPolicy::Object => object.into_value(),
            IncludeObjectPolicy::None => Value::Null,
        };
        Row { cells, object }
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

/// The value of a cell. Upstream: only the first match is used, and a value of another type than
/// that of the column is null.
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

fn column_definitions(columns: &Columns) -> Vec<ColumnDefinition<'_>> {
    match columns {
        Columns::Fixed(columns, _) => columns
            .iter()
            .map(|it| ColumnDefinition {
                name: it.name,
                kind: it.kind,
                format: it.format,
                description: it.description,
                priority: it.priority,
            })
            .collect(),
        Columns::Paths(columns) => {
            let name = ColumnDefinition {
                name: "Name",
                kind: "string",
                format: "name",
                description: NAME_DESCRIPTION,
                priority: 0,
            };
            let other_columns = columns.iter().map(|it| ColumnDefinition {
                name: &it.name,
                kind: &it.kind,
                format: &it.format,
                description: &it.description,
                priority: it.priority,
            });
            std::iter::once(name).chain(other_columns).collect()
        }
    }
}
