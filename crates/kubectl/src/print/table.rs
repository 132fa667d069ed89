//! [`TablePrinter`]: tables of the server as kubectl shows them.

use crate::discovery::ApiResource;
use crate::print::columns::Columns;
use machinery::Value;
use machinery::fields::{entries, list, number, text};

/// What tables look like.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "flags of the command line")]
pub(crate) struct TableOptions {
    pub no_headers: bool,
    pub wide: bool,
    /// A prefix such as `pod/` before each name, even if there is one kind.
    pub with_kind: bool,
    pub show_labels: bool,
    /// A column for each of these labels.
    pub label_columns: Vec<String>,
    /// A column with the type of a watch event.
    pub with_event: bool,
}

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct TablePrinter {
    options: TableOptions,
    with_namespace: bool,
    columns: Columns,
    /// The headers that were printed last.
    headers: Vec<String>,
}

impl TablePrinter {
    pub(crate) fn new(options: &TableOptions, with_namespace: bool) -> Self {
        Self { options: options.clone(), with_namespace, ..Self::default() }
    }

    /// Adds the rows of a table; headers as well, if they are others than before.
    pub(crate) fn add(&mut self, resource: &ApiResource, table: &Value, event: &str) {
        let definitions = list(table, "columnDefinitions");
        let rows = list(table, "rows");
        if !self.options.no_headers && !rows.is_empty() {
            let headers = self.headers_of(definitions);
            if headers != self.headers {
                self.headers.clone_from(&headers);
                self.columns.push(headers);
            }
        }
        for row in rows {
            let cells = self.cells(resource, definitions, row, event);
            self.columns.push(cells);
        }
    }

    /// The text of what was added since the last call.
    pub(crate) fn take_text(&mut self) -> String {
        self.columns.take_text()
    }

    fn is_shown(&self, definition: &Value) -> bool {
        self.options.wide || number(definition, "priority") == 0
    }

    fn headers_of(&self, definitions: &[Value]) -> Vec<String> {
        let mut headers = Vec::new();
        if self.options.with_event {
            headers.push("EVENT".to_owned());
        }
        if self.with_namespace {
            headers.push("NAMESPACE".to_owned());
        }
        let shown = definitions.iter().filter(|it| self.is_shown(it));
        headers.extend(shown.map(|it| text(it, "name").to_uppercase()));
        let labels = self.options.label_columns.iter();
        headers.extend(labels.map(|it| it.rsplit('/').next().unwrap_or(it).to_uppercase()));
        if self.options.show_labels {
            headers.push("LABELS".to_owned());
        }
        headers
    }

    fn cells(
        &self,
        resource: &ApiResource,
        definitions: &[Value],
        row: &Value,
        event: &str,
    ) -> Vec<String> {
        let metadata = &row["object"]["metadata"];
        let mut cells = Vec::new();
        if self.options.with_event {
            cells.push(event.to_owned());
        }
        if self.with_namespace {
            cells.push(text(metadata, "namespace").to_owned());
        }
        let names = definitions
            .iter()
            .position(|it| text(it, "format") == "name" && text(it, "type") == "string");
        for (index, definition) in definitions.iter().enumerate() {
            if !self.is_shown(definition) {
                continue;
            }
            let mut cell = cell_text(&row["cells"][index]);
            if self.options.with_kind && names == Some(index) {
                cell = format!("{}/{cell}", resource.kind_name());
            }
            cells.push(cell);
        }
        let label = |key: &String| metadata["labels"][key].as_str().unwrap_or_default().to_owned();
        cells.extend(self.options.label_columns.iter().map(label));
        if self.options.show_labels {
            cells.push(labels_text(metadata));
        }
        cells
    }
}

/// The labels of an object in one line.
pub(crate) fn labels_text(metadata: &Value) -> String {
    let labels: Vec<String> = entries(metadata, "labels")
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if labels.is_empty() { "<none>".to_owned() } else { labels.join(",") }
}

/// A cell in one line.
fn cell_text(cell: &Value) -> String {
    let text = match cell {
        Value::Null => return String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match text.find(['\u{c}', '\n', '\r']) {
        Some(end) => format!("{}...", &text[..end]),
        None => text,
    }
}
