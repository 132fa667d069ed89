//! [`Template`]: the subset of Go's `text/template` that the stages of KWOK use.
//!
//! Supported are text, comments, trim markers, pipelines, variables, `if`, `with`, `range`, and the
//! functions of [`functions`]. Not supported are `define`, `template`, `block`, `break`, `continue`,
//! methods, and most functions of the library sprig; a template that uses them is refused by
//! [`Template::parse`] with a message that names them.

mod parser;
mod checker;
mod functions;

use std::fmt::Write;

use serde_json::Value;

use parser::{Branch, Node, Operand, Parser, Pipeline};

/// Calls a function that is not built in: `None` if there is no such function.
pub(crate) type Functions<'a> =
    &'a (dyn Fn(&str, &[Value]) -> Option<Result<Value, String>> + Send + Sync);

/// The largest number over which a template may range.
const MAX_RANGE: u64 = 10_000;

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Template(Vec<Node>);

impl Template {
    /// Parses a template, in which these functions are known beside the built-in ones.
    pub(crate) fn parse(text: &str, own_functions: &[&str]) -> Result<Self, String> {
        let nodes = Parser::new(text).parse()?;
        checker::check(&nodes, own_functions)?;
        Ok(Self(nodes))
    }

    /// The text for an object.
    pub(crate) fn render(&self, object: &Value, functions: Functions) -> Result<String, String> {
        let mut evaluator = Evaluator { functions, variables: Vec::new(), output: String::new() };
        evaluator.declare("$", object.clone());
        evaluator.nodes(&self.0, object)?;
        Ok(evaluator.output)
    }
}

struct Evaluator<'a> {
    functions: Functions<'a>,
    /// The variables in scope, the latest last.
    variables: Vec<(String, Value)>,
    output: String,
}

impl Evaluator<'_> {
    fn nodes(&mut self, nodes: &[Node], dot: &Value) -> Result<(), String> {
        let scope = self.variables.len();
        for node in nodes {
            match node {
                Node::Text(text) => self.output.push_str(text),
                Node::Action(pipeline) => {
                    let value = self.pipeline(pipeline, dot)?;
                    if pipeline.variables.is_empty() {
                        self.output.push_str(&functions::print(&value));
                    }
                }
                Node::If(branches) => self.branches(branches, dot, Dot::Same)?,
                Node::With(branches) => self.branches(branches, dot, Dot::Value)?,
                Node::Range { pipeline, body, otherwise } => {
                    self.range(pipeline, body, otherwise, dot)?;
                }
            }
        }
        self.variables.truncate(scope);
        Ok(())
    }

    /// Evaluates the first branch whose condition is true.
    fn branches(&mut self, branches: &[Branch], dot: &Value, inner: Dot) -> Result<(), String> {
        let scope = self.variables.len();
        for branch in branches {
            let Some(condition) = &branch.condition else {
                self.nodes(&branch.body, dot)?;
                break;
            };
            let value = self.pipeline(condition, dot)?;
            if functions::is_true(&value) {
                let dot = if inner == Dot::Value { &value } else { dot };
                self.nodes(&branch.body, dot)?;
                break;
            }
        }
        self.variables.truncate(scope);
        Ok(())
    }

    fn range(
        &mut self,
        pipeline: &Pipeline,
        body: &[Node],
        otherwise: &[Node],
        dot: &Value,
    ) -> Result<(), String> {
        let scope = self.variables.len();
        let all = match self.commands(pipeline, dot)? {
            Value::Null => Vec::new(),
            Value::Array(list) => {
                list.into_iter().enumerate().map(|(i, it)| (Value::from(i), it)).collect()
            }
            Value::Object(map) => map.into_iter().map(|(key, it)| (Value::from(key), it)).collect(),
            Value::Number(count) => {
                let count = count.as_u64().unwrap_or_default();
                if count > MAX_RANGE {
                    return Err(format!("range over {count}, which is more than {MAX_RANGE}"));
                }
                (0..count).map(|i| (Value::from(i), Value::from(i))).collect()
            }
            other => return Err(format!("range can't iterate over {}", functions::print(&other))),
        };
        if all.is_empty() {
            self.nodes(otherwise, dot)?;
        }
        for (key, element) in all {
            match &pipeline.variables[..] {
                [] => {}
                [value] => self.declare(value, element.clone()),
                [index, value, ..] => {
                    self.declare(index, key);
                    self.declare(value, element.clone());
                }
            }
            self.nodes(body, &element)?;
            self.variables.truncate(scope);
        }
        Ok(())
    }

    fn pipeline(&mut self, pipeline: &Pipeline, dot: &Value) -> Result<Value, String> {
        let value = self.commands(pipeline, dot)?;
        for name in &pipeline.variables {
            if !pipeline.is_assignment {
                self.declare(name, value.clone());
                continue;
            }
            let known = self.variables.iter_mut().rev().find(|(known, _)| known == name);
            known.ok_or_else(|| format!("undefined variable {name}"))?.1 = value.clone();
        }
        Ok(value)
    }

    fn commands(&mut self, pipeline: &Pipeline, dot: &Value) -> Result<Value, String> {
        let mut last = None;
        for command in &pipeline.commands {
            last = Some(self.command(command, dot, last)?);
        }
        last.ok_or_else(|| "missing value for command".to_owned())
    }

    fn command(
        &mut self,
        operands: &[Operand],
        dot: &Value,
        piped: Option<Value>,
    ) -> Result<Value, String> {
        let Some((first, rest)) = operands.split_first() else {
            return Err("missing value for command".to_owned());
        };
        let Operand::Function(name) = first else {
            if !rest.is_empty() || piped.is_some() {
                return Err("can't give arguments to a value that is not a function".to_owned());
            }
            return self.operand(first, dot);
        };
        let mut arguments = Vec::with_capacity(rest.len() + 1);
        for operand in rest {
            arguments.push(self.operand(operand, dot)?);
        }
        arguments.extend(piped);
        self.call(name, &arguments)
    }

    fn operand(&mut self, operand: &Operand, dot: &Value) -> Result<Value, String> {
        match operand {
            Operand::Literal(value) => Ok(value.clone()),
            Operand::Field(path) => Ok(field(dot, path)),
            Operand::Variable(name, path) => {
                let known = self.variables.iter().rev().find(|(known, _)| known == name);
                let (_, value) = known.ok_or_else(|| format!("undefined variable {name}"))?;
                Ok(field(value, path))
            }
            Operand::Function(name) => self.call(name, &[]),
            Operand::Pipeline(pipeline, path) => Ok(field(&self.pipeline(pipeline, dot)?, path)),
        }
    }

    fn call(&self, name: &str, arguments: &[Value]) -> Result<Value, String> {
        let own = || (self.functions)(name, arguments);
        let result = functions::call(name, arguments).or_else(own);
        result.unwrap_or_else(|| Err(functions::not_supported(name)))
    }

    fn declare(&mut self, name: &str, value: Value) {
        self.variables.push((name.to_owned(), value));
    }
}

/// The dot of a branch: that of its surroundings, or the value of its condition.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dot {
    Same,
    Value,
}

/// A field of a field; null if there is none.
fn field(value: &Value, path: &[String]) -> Value {
    let found = path.iter().try_fold(value, |value, name| value.get(name));
    found.cloned().unwrap_or_default()
}

/// Writes numbers and texts as Go's `fmt` does.
fn write_go(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("<no value>"),
        Value::String(text) => out.push_str(text),
        Value::Array(list) => {
            out.push('[');
            for (i, element) in list.iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                write_go(out, element);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push_str("map[");
            for (i, (key, element)) in map.iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                write_go(out, element);
            }
            out.push(']');
        }
        scalar => {
            // Writing to a string does not fail.
            let _ = write!(out, "{scalar}");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn render(text: &str, object: &Value) -> Result<String, String> {
        let functions = |name: &str, arguments: &[Value]| {
            (name == "NodeIPWith").then(|| Ok(json!(format!("ip of {}", arguments[0]))))
        };
        Template::parse(text, &["NodeIPWith"])?.render(object, &functions)
    }

    fn check(text: &str, expect: &str) {
        let object = json!({
            "metadata": {"name": "p", "annotations": {"a/b": "x"}},
            "spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d"}], "hostNetwork": true},
        });
        assert_eq!(render(text, &object).as_deref(), Ok(expect), "{text}");
    }

    #[test]
    fn templates_that_are_nested_too_deeply_are_refused() {
        for (before, inner, after) in [
            ("{{ if true }}", "a", "{{ end }}"),
            ("{{ with 1 }}", "a", "{{ end }}"),
            ("{{ range 1 }}", "a", "{{ end }}"),
            ("{{ if false }}{{ else }}", "a", "{{ end }}"),
            ("{{ range 0 }}{{ else }}", "a", "{{ end }}"),
        ] {
            let nested = |levels| before.repeat(levels) + inner + &after.repeat(levels);
            check(&nested(50), "a");
            for levels in [51, 100_000] {
                let error = Template::parse(&nested(levels), &[]).unwrap_err();
                assert_eq!(error, "the template is nested too deeply", "{before}");
            }
        }
        let nested = |levels| format!("{{{{ {}`a`{} }}}}", "(".repeat(levels), ")".repeat(levels));
        check(&nested(50), "a");
        for levels in [51, 100_000] {
            let error = Template::parse(&nested(levels), &[]).unwrap_err();
            assert_eq!(error, "the template is nested too deeply");
        }
    }

    #[test]
    fn fields_variables_and_pipelines_are_evaluated() {
        check("a {{ .metadata.name }} b", "a p b");
        check("{{ .metadata.name | Quote }}", "\"p\"");
        check("{{ $x := .metadata }}{{ $x.name }}", "p");
        check("{{ index .metadata.annotations \"a/b\" }}", "x");
        check("{{ or .missing `d` }}{{ or .metadata.name \"e\" }}", "dp");
        check("{{ printf \"kwok-%s\" .metadata.name }}", "kwok-p");
        check("{{ NodeIPWith ( or .spec.nodeName \"n\" ) | Quote }}", "\"ip of \\\"n\\\"\"");
        check("a {{- /* comment */ -}}  b", "ab");
        check("{{ (index .spec.containers 1).name }}", "d");
    }

    #[test]
    fn branches_and_loops_are_evaluated() {
        check("{{ range .spec.containers }}{{ .name }} {{ end }}", "c d ");
        check(
            "{{ range $i, $c := .spec.containers }}{{ $i }}{{ $c.name }}{{ $.metadata.name }} {{ end }}",
            "0cp 1dp ",
        );
        check("{{ range .missing }}x{{ else }}none{{ end }}", "none");
        check("{{ if eq .metadata.name \"q\" }}1{{ else if .spec.hostNetwork }}2{{ end }}", "2");
        check("{{ with .metadata.name }}{{ . }}{{ else }}no{{ end }}", "p");
        check(
            "{{ $f := false }}{{ range .spec.containers }}{{ $f = true }}{{ end }}{{ $f }}",
            "true",
        );
        check(
            "{{ if not .spec.restartPolicy }}{{ if eq .spec.restartPolicy \"Always\" }}x{{ end }}{{ end }}",
            "",
        );
    }

    #[test]
    fn what_is_not_supported_is_named() {
        let error = |text| Template::parse(text, &["NodeIPWith"]).unwrap_err();
        assert_eq!(error("{{ htpasswd 1 2 }}"), "the function \"htpasswd\" is not supported");
        assert_eq!(error("{{ define \"x\" }}{{ end }}"), "\"define\" is not supported");
        let unknown = "the function \"nosuch\" is not supported";
        for text in [
            "{{ if .missing }}{{ nosuch }}{{ end }}",
            "{{ range .missing }}{{ .a | nosuch }}{{ end }}",
            "{{ with nosuch }}{{ else }}{{ end }}",
            "{{ NodeIPWith (or .a nosuch) }}",
        ] {
            assert_eq!(error(text), unknown, "{text}");
        }
        assert_eq!(error("{{ $x }}"), "undefined variable $x");
        assert_eq!(error("{{ $x = 1 }}"), "undefined variable $x");
        assert_eq!(error("{{ if .a }}{{ $x := 1 }}{{ end }}{{ $x }}"), "undefined variable $x");
        let not_a_function = "can't give arguments to a value that is not a function";
        assert_eq!(error("{{ .a 1 }}"), not_a_function);
        assert_eq!(error("{{ 1 | .a }}"), not_a_function);
        assert_eq!(error("{{ if . }}"), "\"if\", \"with\" or \"range\" without \"end\"");
    }
}
