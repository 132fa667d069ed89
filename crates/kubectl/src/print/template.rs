//! [`Template`]: text with JSON paths in braces, the argument of `-o jsonpath=`.
//!
//! ```text
//! {range .items[*]}{.metadata.name}{"\t"}{.status.phase}{"\n"}{end}
//! ```

use machinery::Value;
use machinery::codec::json;
use machinery::json_path::JsonPath;

use crate::error::Error;
use crate::print::object::indented_json;

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Template {
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    Text(String),
    Path(JsonPath),
    Range(JsonPath, Vec<Part>),
}

impl Template {
    /// Parses a template.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let failed = |why: String| Error::message(format!("error parsing jsonpath {text}, {why}"));
        let mut actions = actions(text).map_err(failed)?.into_iter();
        let parts = block(&mut actions, false).map_err(failed)?;
        Ok(Self { parts })
    }

    /// Writes the text for a document.
    pub(crate) fn write(&self, document: &Value, out: &mut String) {
        write_parts(&self.parts, document, out);
    }

    /// All results for a document, as one JSON array for each path.
    pub(crate) fn write_as_json(&self, document: &Value, out: &mut String) {
        for results in self.results(document) {
            out.push_str(&indented_json(&Value::from(results)));
        }
    }

    /// The results of each path outside of ranges and of each run of those inside.
    pub(crate) fn results(&self, document: &Value) -> Vec<Vec<Value>> {
        let mut results = Vec::new();
        collect(&self.parts, document, &mut results);
        results
    }
}

fn collect(parts: &[Part], document: &Value, results: &mut Vec<Vec<Value>>) {
    for part in parts {
        match part {
            Part::Text(text) => results.push(vec![text.as_str().into()]),
            Part::Path(path) => results.push(path.find(document).into_iter().cloned().collect()),
            Part::Range(path, body) => {
                for value in path.find(document) {
                    collect(body, value, results);
                }
            }
        }
    }
}

fn write_parts(parts: &[Part], document: &Value, out: &mut String) {
    for part in parts {
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Path(path) => {
                let found: Vec<String> = path.find(document).into_iter().map(plain_text).collect();
                out.push_str(&found.join(" "));
            }
            Part::Range(path, body) => {
                for value in path.find(document) {
                    write_parts(body, value, out);
                }
            }
        }
    }
}

/// A result as kubectl prints it: a text without quotes, anything else as JSON.
pub(crate) fn plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "<nil>".to_owned(),
        other => json::to_text(other),
    }
}

/// A piece of a template before its blocks are found.
enum Action {
    Text(String),
    Path(JsonPath),
    Range(JsonPath),
    End,
}

fn actions(text: &str) -> Result<Vec<Action>, String> {
    let mut actions = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        if start > 0 {
            actions.push(Action::Text(rest[..start].to_owned()));
        }
        let inner = &rest[start + 1..];
        let end = end_of_action(inner).ok_or("unclosed action")?;
        add_action(&mut actions, inner[..end].trim())?;
        rest = &inner[end + 1..];
    }
    if !rest.is_empty() {
        actions.push(Action::Text(rest.to_owned()));
    }
    Ok(actions)
}

fn add_action(actions: &mut Vec<Action>, inner: &str) -> Result<(), String> {
    let path = |text: &str| JsonPath::parse(&format!("{{{}}}", text.trim()));
    if inner == "end" {
        actions.push(Action::End);
    } else if let Some(rest) =
        inner.strip_prefix("range").filter(|it| !it.starts_with(char::is_alphanumeric))
    {
        actions.push(Action::Range(path(rest)?));
    } else if inner.starts_with(['"', '\'']) {
        actions.push(Action::Text(unquote(inner)?));
    } else if inner.starts_with(|c: char| c.is_alphabetic()) {
        let name = inner.split(|c: char| !c.is_alphanumeric()).next().unwrap_or(inner);
        return Err(format!("unrecognized identifier {name}"));
    } else {
        actions.push(Action::Path(path(inner)?));
    }
    Ok(())
}

/// The position of the brace that ends an action, outside of quotes.
fn end_of_action(inner: &str) -> Option<usize> {
    let mut quote = None;
    let mut is_escaped = false;
    for (at, c) in inner.char_indices() {
        match (quote, c) {
            _ if is_escaped => is_escaped = false,
            (_, '\\') => is_escaped = true,
            (None, '}') => return Some(at),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            _ => {}
        }
    }
    None
}

fn unquote(quoted: &str) -> Result<String, String> {
    let mut chars = quoted.chars();
    let quote = chars.next();
    let mut text = String::new();
    loop {
        match chars.next() {
            None => return Err("unterminated quoted string".to_owned()),
            c if c == quote => break,
            Some('\\') => match chars.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some('r') => text.push('\r'),
                Some(c) => text.push(c),
                None => return Err("unterminated quoted string".to_owned()),
            },
            Some(c) => text.push(c),
        }
    }
    Ok(text)
}

/// The parts until the end of a block.
fn block(actions: &mut impl Iterator<Item = Action>, is_range: bool) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    while let Some(action) = actions.next() {
        match action {
            Action::Text(text) => parts.push(Part::Text(text)),
            Action::Path(path) => parts.push(Part::Path(path)),
            Action::Range(path) => parts.push(Part::Range(path, block(actions, true)?)),
            Action::End if is_range => return Ok(parts),
            Action::End => return Err("not in range, nothing to end".to_owned()),
        }
    }
    if is_range { Err("unterminated range".to_owned()) } else { Ok(parts) }
}

#[cfg(test)]
mod tests {
    use machinery::json;

    use super::*;

    fn check(template: &str, expected: &str) {
        let document = json!({"items": [{"name": "a", "n": 1}, {"name": "b", "on": true}]});
        let mut text = String::new();
        match Template::parse(template) {
            Ok(template) => template.write(&document, &mut text),
            Err(error) => text = error.to_string(),
        }
        assert_eq!(text, expected, "{template}");
    }

    #[test]
    fn ranges_repeat_their_parts_and_quoted_text_is_unescaped() {
        check(r#"{range .items[*]}{.name}{"\t"}{.n}{"\n"}{end}."#, "a\t1\nb\t\n.");
        check("x {.items[*].name}", "x a b");
        check("{.items[0]}", r#"{"n":1,"name":"a"}"#);
        check("{.missing.a}", "");
        check(r#"{.items[?(@.name=="b")].on}"#, "true");
    }

    #[test]
    fn an_error_names_the_template() {
        check("{.a", "error parsing jsonpath {.a, unclosed action");
        check("{foo}", "error parsing jsonpath {foo}, unrecognized identifier foo");
    }
}
