//! [`CustomColumns`]: the columns of `-o custom-columns=NAME:.metadata.name,…`.

use machinery::Value;
use machinery::json_path::JsonPath;

use crate::error::Error;
use crate::print::columns::Columns;
use crate::print::template::plain_text;

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct CustomColumns {
    columns: Vec<(String, JsonPath)>,
    no_headers: bool,
    are_headers_printed: bool,
}

impl CustomColumns {
    /// Parses `HEADER:PATH,…`.
    pub(crate) fn parse(spec: &str, no_headers: bool) -> Result<Self, Error> {
        if spec.is_empty() {
            return Err(Error::message(
                "custom-columns format specified but no custom columns given",
            ));
        }
        let mut columns = Vec::new();
        for part in spec.split(',') {
            let Some((header, path)) = part.split_once(':') else {
                return Err(Error::message(format!(
                    "unexpected custom-columns spec: {part}, expected <header>:<json-path-expr>"
                )));
            };
            columns.push((header.to_owned(), relaxed_path(path)?));
        }
        Ok(Self { columns, no_headers, are_headers_printed: false })
    }

    /// Parses a file with a line of headers and a line of paths.
    pub(crate) fn parse_file(text: &str) -> Result<Self, Error> {
        let missing = |what: &str| {
            Error::message(format!(
                "invalid template, missing {what} line. Expected format is one line of space \
                 separated headers, one line of space separated column specs."
            ))
        };
        let mut lines = text.lines();
        let headers: Vec<&str> =
            lines.next().ok_or_else(|| missing("header"))?.split_whitespace().collect();
        let paths: Vec<&str> =
            lines.next().ok_or_else(|| missing("spec"))?.split_whitespace().collect();
        if headers.len() != paths.len() {
            return Err(Error::message(format!(
                "number of headers ({}) and field specifications ({}) don't match",
                headers.len(),
                paths.len()
            )));
        }
        let mut columns = Vec::new();
        for (header, path) in headers.iter().zip(paths) {
            columns.push(((*header).to_owned(), relaxed_path(path)?));
        }
        Ok(Self { columns, no_headers: false, are_headers_printed: false })
    }

    /// The lines for some objects, with headers the first time.
    pub(crate) fn text(&mut self, objects: &[&Value]) -> String {
        let mut rows = Columns::default();
        if !self.no_headers && !self.are_headers_printed {
            rows.push(self.columns.iter().map(|(header, _)| header.clone()).collect());
        }
        self.are_headers_printed = true;
        for object in objects {
            let cell = |(_, path): &(String, JsonPath)| {
                let found: Vec<String> = path.find(object).into_iter().map(go_text).collect();
                if found.is_empty() { "<none>".to_owned() } else { found.join(",") }
            };
            rows.push(self.columns.iter().map(cell).collect());
        }
        rows.take_text()
    }
}

/// A value as Go prints values of any type: `map[a:1 b:2]`, `[x y]`.
fn go_text(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let entries: Vec<String> =
                map.iter().map(|(key, value)| format!("{key}:{}", go_text(value))).collect();
            format!("map[{}]", entries.join(" "))
        }
        Value::Array(list) => {
            let items: Vec<String> = list.iter().map(go_text).collect();
            format!("[{}]", items.join(" "))
        }
        other => plain_text(other),
    }
}

/// A path with or without braces and the first dot.
pub(crate) fn relaxed_path(text: &str) -> Result<JsonPath, Error> {
    let inner = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}'),
        None => Some(text).filter(|it| !it.contains(['{', '}'])),
    };
    let Some(inner) = inner else {
        return Err(Error::message(
            "unexpected path string, expected a 'name1.name2' or '.name1.name2' or \
             '{name1.name2}' or '{.name1.name2}'",
        ));
    };
    let inner = inner.strip_prefix('.').unwrap_or(inner);
    JsonPath::parse(&format!("{{.{inner}}}")).map_err(Error::message)
}
