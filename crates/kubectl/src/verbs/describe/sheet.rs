//! [`Sheet`]: lines of cells that are aligned where they stand below each other.
//!
//! ```text
//! Name:\tweb            Name:       web
//! Namespace:\tshop      Namespace:  shop
//! ```
//!
//! A column is as long as neighbouring lines have a cell in it.

use keel::escape_controls;
use machinery::fields::{list, number, text};
use machinery::{Value, timestamp};

/// The number of spaces after the widest cell of a column.
const PADDING: usize = 2;

/// The length of an annotation that still fits in a line.
const ANNOTATION_MAX: usize = 140;

/// The annotation that would repeat the object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct Sheet {
    /// What has been aligned already.
    done: String,
    /// Lines with tabs between their cells.
    raw: String,
    now: i64,
}

impl Sheet {
    pub(super) fn new(now: i64) -> Self {
        Self { done: String::new(), raw: String::new(), now }
    }

    /// Adds a line, indented by two spaces for each level.
    pub(super) fn line(&mut self, level: usize, line: &str) {
        self.raw.push_str(&"  ".repeat(level));
        self.raw.push_str(line);
        self.raw.push('\n');
    }

    /// Adds a title with its value.
    pub(super) fn field(&mut self, level: usize, title: &str, value: &str) {
        self.line(level, &format!("{title}:\t{value}"));
    }

    /// Adds a title with its value, if there is one.
    pub(super) fn optional(&mut self, level: usize, title: &str, value: &str) {
        if !value.is_empty() {
            self.field(level, title, value);
        }
    }

    /// Adds a title with one value on each line.
    pub(super) fn lines(&mut self, title: &str, values: &[String]) {
        let Some((first, rest)) = values.split_first() else {
            return self.field(0, title, "<none>");
        };
        self.field(0, title, first);
        for value in rest {
            self.line(0, &format!("\t{value}"));
        }
    }

    /// Name, namespace, labels and annotations.
    pub(super) fn head(&mut self, object: &Value) {
        let metadata = &object["metadata"];
        self.field(0, "Name", text(metadata, "name"));
        self.field(0, "Namespace", text(metadata, "namespace"));
        self.labels("Labels", &metadata["labels"]);
        self.annotations("Annotations", &metadata["annotations"]);
    }

    /// A map of texts, an entry on each line.
    pub(super) fn labels(&mut self, title: &str, labels: &Value) {
        let values: Vec<String> = labels
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect();
        self.lines(title, &values);
    }

    /// Annotations; long ones begin on a line of their own.
    pub(super) fn annotations(&mut self, title: &str, annotations: &Value) {
        let mut values = Vec::new();
        for (key, value) in annotations.as_object().into_iter().flatten() {
            if key == LAST_APPLIED {
                continue;
            }
            let value = value.as_str().unwrap_or_default();
            let value = value.strip_suffix('\n').unwrap_or(value);
            if value.len() + key.len() + 2 > ANNOTATION_MAX || value.contains('\n') {
                values.push(format!("{key}:"));
                values.extend(value.split('\n').map(|line| format!("  {}", shortened(line))));
            } else {
                values.push(format!("{key}: {value}"));
            }
        }
        self.lines(title, &values);
    }

    /// The events of the object, the oldest first.
    pub(super) fn events(&mut self, events: &[Value]) {
        if events.is_empty() {
            return self.field(0, "Events", "<none>");
        }
        self.flush();
        let mut events: Vec<&Value> = events.iter().collect();
        events.sort_by_key(|it| text(it, "lastTimestamp").to_owned());
        self.line(0, "Events:");
        self.line(1, "Type\tReason\tAge\tFrom\tMessage");
        self.line(1, "----\t------\t----\t----\t-------");
        for event in events {
            let first = match text(event, "eventTime") {
                "" => self.since(text(event, "firstTimestamp")),
                time => self.since(time),
            };
            let count = number(event, "count");
            let series = &event["series"];
            let age = if series.is_object() {
                let last = self.since(text(series, "lastObservedTime"));
                format!("{last} (x{} over {first})", number(series, "count"))
            } else if count > 1 {
                let last = self.since(text(event, "lastTimestamp"));
                format!("{last} (x{count} over {first})")
            } else {
                first
            };
            let from = match text(&event["source"], "component") {
                "" => text(event, "reportingComponent"),
                component => component,
            };
            let mut message = text(event, "message").trim().to_owned();
            let field = text(&event["involvedObject"], "fieldPath");
            if !field.is_empty() {
                message = format!("{field}: {message}");
            }
            let (kind, reason) = (text(event, "type"), text(event, "reason"));
            self.line(1, &format!("{kind}\t{reason}\t{age}\t{from}\t{message}"));
        }
    }

    /// The time since a moment.
    pub(super) fn since(&self, time: &str) -> String {
        timestamp::parse(time).map_or("<unknown>".to_owned(), |(seconds, _)| {
            timestamp::human_duration(self.now - seconds)
        })
    }

    /// Aligns what was added; later lines do not change its columns.
    fn flush(&mut self) {
        let raw = std::mem::take(&mut self.raw);
        self.done.push_str(&aligned(&escape_controls(&raw)));
    }

    /// The text of the sheet.
    pub(super) fn into_text(mut self) -> String {
        self.flush();
        self.done
    }
}

fn shortened(line: &str) -> String {
    let max = ANNOTATION_MAX - 2;
    match line.char_indices().nth(max) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.to_owned(),
    }
}

/// `Wed, 18 Nov 2026 20:53:26 +0000`
pub(super) fn date(time: &str) -> String {
    let Some((seconds, _)) = timestamp::parse(time) else { return "<unset>".to_owned() };
    let time = jiff::Timestamp::from_second(seconds).unwrap_or_default();
    time.strftime("%a, %d %b %Y %H:%M:%S +0000").to_string()
}

/// Replaces the tabs by spaces.
fn aligned(raw: &str) -> String {
    let lines: Vec<Vec<&str>> = raw.lines().map(|it| it.split('\t').collect()).collect();
    let mut widths: Vec<Vec<usize>> = lines.iter().map(|it| vec![0; it.len()]).collect();
    align(&lines, &mut widths, 0, lines.len(), 0);
    let mut out = String::new();
    for (cells, widths) in lines.iter().zip(&widths) {
        let last = cells.len() - 1;
        for (index, cell) in cells.iter().enumerate() {
            out.push_str(cell);
            if index < last {
                let missing = widths[index].saturating_sub(cell.chars().count());
                out.extend(std::iter::repeat_n(' ', missing));
            }
        }
        out.push('\n');
    }
    out
}

/// Sets the widths of a column, and of those to the right of it, in neighbouring lines.
fn align(lines: &[Vec<&str>], widths: &mut [Vec<usize>], start: usize, end: usize, column: usize) {
    let has_column = |line: &Vec<&str>| line.len() > column + 1;
    let mut at = start;
    while at < end {
        if !has_column(&lines[at]) {
            at += 1;
            continue;
        }
        let stop = (at..end).find(|it| !has_column(&lines[*it])).unwrap_or(end);
        let widest = lines[at..stop].iter().map(|it| it[column].chars().count()).max();
        let width = widest.unwrap_or(0) + PADDING;
        for line in &mut widths[at..stop] {
            line[column] = width;
        }
        align(lines, widths, at, stop, column + 1);
        at = stop;
    }
}

/// The conditions of a status with these columns; each is a title and a field.
pub(super) fn conditions(sheet: &mut Sheet, object: &Value) {
    let conditions = list(&object["status"], "conditions");
    if conditions.is_empty() {
        return;
    }
    sheet.line(0, "Conditions:");
    sheet.line(1, "Type\tStatus\tReason");
    sheet.line(1, "----\t------\t------");
    for it in conditions {
        let (kind, status) = (text(it, "type"), text(it, "status"));
        sheet.line(1, &format!("{kind} \t{status}\t{}", text(it, "reason")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    #[test]
    fn control_characters_of_an_annotation_become_visible() {
        let mut sheet = Sheet::new(0);
        sheet.annotations("Annotations", &json!({"a": "x\u{1b}[2Jy\u{7}"}));
        assert_eq!(sheet.into_text(), "Annotations:  a: x^[[2Jy^G\n");
    }

    #[test]
    fn a_column_ends_with_the_last_line_that_has_it() {
        assert_eq!(
            aligned("Name:\tx\nLabels:\ta=b\nNext:\n  A:\tb\tc\n  Long:\td\n"),
            "Name:    x\nLabels:  a=b\nNext:\n  A:     b  c\n  Long:  d\n"
        );
        assert_eq!(date("2026-11-18T20:53:26Z"), "Wed, 18 Nov 2026 20:53:26 +0000");
    }
}
