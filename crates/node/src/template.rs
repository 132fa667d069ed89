//! [`Template`]: the subset of Go's `text/template` that the stages of KWOK use.
//!
//! Supported are text, comments, trim markers, pipelines, variables, `if`, `with`, `range`, and the
//! functions of [`functions`]. Not supported are `define`, `template`, `block`, `break`, `continue`,
//! methods, and most functions of the library sprig; a template that uses them is refused by
//! [`Template::parse`] with a message that names them. A rendering fails after a number of steps or
//! bytes: see [`budget`].

mod parser;
mod checker;
mod functions;
mod budget;

use std::fmt::Write;

use serde_json::Value;

use budget::Budget;
use parser::{Branch, Node, Operand, Parser, Pipeline};

/// Calls a function that is not built in: `None` if there is no such function.
pub(crate) type Functions<'a> =
    &'a (dyn Fn(&str, &[Value]) -> Option<Result<Value, String>> + Send + Sync);

/// The largest number over which a template may range.
const MAX_RANGE: u64 = 10_000;

/// The largest number of bytes of a template.
const MAX_LENGTH: usize = 64 << 10;

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Template(Vec<Node>);

impl Template {
    /// Parses a template, in which these functions are known beside the built-in ones.
    pub(crate) fn parse(text: &str, own_functions: &[&str]) -> Result<Self, String> {
        if text.len() > MAX_LENGTH {
            return Err(format!("the template has more than {MAX_LENGTH} bytes"));
        }
        let nodes = Parser::new(text).parse()?;
        checker::check(&nodes, own_functions)?;
        Ok(Self(nodes))
    }

    /// The text for an object.
    pub(crate) fn render(&self, object: &Value, functions: Functions) -> Result<String, String> {
        let mut evaluator = Evaluator {
            functions,
            variables: Vec::new(),
            output: String::new(),
            budget: Budget::new(),
        };
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
    budget: Budget,
}

impl Evaluator<'_> {
    fn nodes(&mut self, nodes: &[Node], dot: &Value) -> Result<(), String> {
        let scope = self.variables.len();
        for node in nodes {
            self.budget.count_steps(1)?;
            match node {
                Node::Text(text) => budget::append(&mut self.output, text)?,
                Node::Action(pipeline) => {
                    let value = self.commands(pipeline, dot)?;
                    if pipeline.variables.is_empty() {
                        budget::append(&mut self.output, &functions::print(&value))?;
                    } else {
                        self.assign(pipeline, value)?;
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
        self.budget.count_steps(all.len())?;
        for (key, element) in all {
            match &pipeline.variables[..] {
                [] => {}
                [value] => {
                    let element = self.budget.copy(Some(&element))?;
                    self.declare(value, element);
                }
                [index, value, ..] => {
                    let element = self.budget.copy(Some(&element))?;
                    self.declare(index, key);
                    self.declare(value, element);
                }
            }
            self.nodes(body, &element)?;
            self.variables.truncate(scope);
        }
        Ok(())
    }

    fn pipeline(&mut self, pipeline: &Pipeline, dot: &Value) -> Result<Value, String> {
        let value = self.commands(pipeline, dot)?;
        if !pipeline.variables.is_empty() {
            let copy = self.budget.copy(Some(&value))?;
            self.assign(pipeline, copy)?;
        }
        Ok(value)
    }

    /// Sets the variables of a pipeline.
    fn assign(&mut self, pipeline: &Pipeline, value: Value) -> Result<(), String> {
        let Some((last, others)) = pipeline.variables.split_last() else { return Ok(()) };
        for name in others {
            let copy = self.budget.copy(Some(&value))?;
            self.set(name, copy, pipeline.is_assignment)?;
        }
        self.set(last, value, pipeline.is_assignment)
    }

    fn set(&mut self, name: &str, value: Value, is_assignment: bool) -> Result<(), String> {
        if is_assignment {
            let index = self.find(name)?;
            self.variables[index].1 = value;
        } else {
            self.declare(name, value);
        }
        Ok(())
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
        if let ("index", Some((value, keys)), None) = (name.as_str(), rest.split_first(), &piped) {
            return self.index(value, keys, dot);
        }
        let mut arguments = Vec::with_capacity(rest.len() + 1);
        for operand in rest {
            arguments.push(self.operand(operand, dot)?);
        }
        arguments.extend(piped);
        self.call(name, &arguments)
    }

    /// The function `index`, which copies only the element.
    fn index(&mut self, value: &Operand, keys: &[Operand], dot: &Value) -> Result<Value, String> {
        let keys: Vec<Value> =
            keys.iter().map(|key| self.operand(key, dot)).collect::<Result<_, _>>()?;
        self.budget.count_steps(1)?;
        match value {
            Operand::Field(path) => {
                let value = field(dot, path);
                self.budget.copy(value.and_then(|it| functions::element(it, &keys)))
            }
            Operand::Variable(name, path) => {
                let index = self.find(name)?;
                let value = field(&self.variables[index].1, path);
                self.budget.copy(value.and_then(|it| functions::element(it, &keys)))
            }
            other => {
                let value = self.operand(other, dot)?;
                self.budget.copy(functions::element(&value, &keys))
            }
        }
    }

    fn operand(&mut self, operand: &Operand, dot: &Value) -> Result<Value, String> {
        self.budget.count_steps(1)?;
        match operand {
            Operand::Literal(value) => self.budget.copy(Some(value)),
            Operand::Field(path) => self.budget.copy(field(dot, path)),
            Operand::Variable(name, path) => {
                let index = self.find(name)?;
                self.budget.copy(field(&self.variables[index].1, path))
            }
            Operand::Function(name) => self.call(name, &[]),
            Operand::Pipeline(pipeline, path) => {
                let value = self.pipeline(pipeline, dot)?;
                self.budget.copy(field(&value, path))
            }
        }
    }

    /// The position of a variable.
    fn find(&mut self, name: &str) -> Result<usize, String> {
        let index = self.variables.iter().rposition(|(known, _)| known == name);
        let index = index.ok_or_else(|| format!("undefined variable {name}"))?;
        self.budget.count_steps((self.variables.len() - index) / 16)?;
        Ok(index)
    }

    fn call(&mut self, name: &str, arguments: &[Value]) -> Result<Value, String> {
        self.budget.count_steps(1)?;
        // Before the result is built.
        self.budget.count_bytes(functions::growth(name, arguments)?)?;
        let own = || (self.functions)(name, arguments);
        let result = functions::call(name, arguments).or_else(own);
        let result = result.unwrap_or_else(|| Err(functions::not_supported(name)))?;
        self.budget.count(&result)?;
        Ok(result)
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

/// A field of a field.
fn field<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| value.get(name))
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
            for levels in [51, 1_000] {
                let error = Template::parse(&nested(levels), &[]).unwrap_err();
                assert_eq!(error, "the template is nested too deeply", "{before}");
            }
        }
        let nested = |levels| format!("{{{{ {}`a`{} }}}}", "(".repeat(levels), ")".repeat(levels));
        check(&nested(50), "a");
        for levels in [51, 1_000] {
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

    #[test]
    fn loops_are_limited_to_a_number_of_steps_in_all() {
        let nested = |levels: usize| {
            let (start, end) = ("{{ range 10000 }}".repeat(levels), "{{ end }}".repeat(levels));
            render(&format!("{start}{end}"), &Value::Null)
        };
        assert_eq!(nested(1).as_deref(), Ok(""));
        for levels in [2, 4, 50] {
            let error = nested(levels).unwrap_err();
            assert_eq!(error, "the template takes more than 100000 steps");
        }
        let declarations = "{{$v0:=1}}".to_owned() + &"{{$v:=1}}".repeat(2_000);
        let lookups = format!("{declarations}{{{{ range 10000 }}}}{{{{ $v0 }}}}{{{{ end }}}}");
        let error = render(&lookups, &Value::Null).unwrap_err();
        assert_eq!(error, "the template takes more than 100000 steps");
    }

    #[test]
    fn the_values_and_the_result_are_limited() {
        let object = json!({"text": "x".repeat(100_000), "list": vec!["a"; 1_000]});
        let values = "the values of the template have more than 16777216 bytes";
        for text in [
            "{{ $x := `abc` }}{{ range 100 }}{{ $x = printf \"%s%s%s\" $x $x $x }}{{ end }}",
            "{{ $x := list 1 }}{{ range 100 }}{{ $x = list $x $x $x }}{{ end }}",
            "{{ $x := dict }}{{ range 100 }}{{ $x = dict `a` $x `b` $x }}{{ end }}",
            "{{ range 10000 }}{{ $x := .}}{{ $y := $.text }}{{ end }}",
            "{{ $x := replace `x` .text .text }}",
            "{{ $x := replace `` .text .text }}",
            "{{ $x := join .text .list }}",
            "{{ $x := .list }}{{ range 90 }}{{ $x = list $x }}{{ end }}{{ range 50 }}{{ $y := YAML $x 32 }}{{ end }}",
        ] {
            let error = render(text, &object).unwrap_err();
            assert_eq!(error, values, "{text}");
        }
        let deep = "{{ $x := list 1 }}{{ range 10000 }}{{ $x = list $x }}{{ end }}";
        let error = render(deep, &object).unwrap_err();
        assert_eq!(error, "a value of the template has more than 200 levels");
        for text in [
            "{{ range 3 }}{{ $.text }}{{ end }}",
            "{{ range 10000 }}0123456789012345678901234567{{ end }}",
        ] {
            let error = render(text, &object).unwrap_err();
            assert_eq!(error, "the result of the template has more than 262144 bytes");
        }
        let error = render(&" a".repeat(40_000), &object).unwrap_err();
        assert_eq!(error, "the template has more than 65536 bytes");
    }

    #[test]
    fn the_limits_leave_room_for_pods_with_many_containers() {
        let container = |i: usize| {
            let env: Vec<Value> = (0..20).map(|i| json!({"name": i, "value": "v"})).collect();
            json!({"name": format!("c{i}"), "image": "example.com/some/image:1", "env": env})
        };
        let containers: Vec<Value> = (0..100).map(container).collect();
        let statuses = containers.clone();
        let object = json!({"metadata": {"annotations": {"a": "x".repeat(200_000)}},
            "spec": {"containers": containers}, "status": {"containerStatuses": statuses}});
        // As KWOK's stage `pod-complete`.
        let template = "{{ $root := . }}{{ $annotations := or .metadata.annotations dict }}
            {{ range $index, $item := .spec.containers }}
            {{ $origin := index $root.status.containerStatuses $index }}
            - image: {{ $item.image | Quote }}
              name: {{ or $origin.name $item.name | Quote }}
              {{ if index $annotations `b` }}x{{ else if eq $item.name `c1` }}y{{ end }}
            {{ end }}";
        let text = render(template, &object).unwrap();
        assert_eq!(text.matches("image:1").count(), 100);
    }
}
