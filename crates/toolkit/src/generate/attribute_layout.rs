//! [`Argument`] and [`attribute`]: the arguments of an attribute, and their layout, which is that of rustfmt.

/// The longest line.
pub(crate) const WIDTH: usize = 100;

/// An argument of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Argument {
    /// `namespaced`, `kind = "Site"`, `"text"`
    Plain(String),
    /// `length(min = 1, max = 2)`
    List(&'static str, Vec<Argument>),
}

impl Argument {
    /// `name = value`
    pub(crate) fn value(name: &str, value: &str) -> Self {
        Self::Plain(format!("{name} = {value}"))
    }

    /// `name`
    pub(crate) fn word(name: &str) -> Self {
        Self::Plain(name.to_owned())
    }

    fn line(&self) -> String {
        match self {
            Self::Plain(text) => text.clone(),
            Self::List(name, arguments) => format!("{name}({})", line(arguments)),
        }
    }

    /// The argument, which begins in the column `indentation`. rustfmt leaves room for two characters after
    /// a list.
    fn layout(&self, indentation: usize) -> String {
        let line = self.line();
        match self {
            Self::List(name, arguments) if !fits(&line, indentation + 2) => {
                list(name, arguments, indentation)
            }
            _ => line,
        }
    }
}

fn line(arguments: &[Argument]) -> String {
    arguments.iter().map(Argument::line).collect::<Vec<_>>().join(", ")
}

fn fits(line: &str, more: usize) -> bool {
    line.chars().count() + more <= WIDTH && !line.contains('\n')
}

/// A list on several lines: a list in it that is alone is broken in its place, and others have a line for
/// each argument.
fn list(name: &str, arguments: &[Argument], indentation: usize) -> String {
    if let [Argument::List(inner, arguments)] = arguments {
        return format!("{name}({})", list(inner, arguments, indentation));
    }
    let inner = indentation + 4;
    let line = |argument: &Argument| format!("{}{}", " ".repeat(inner), argument.layout(inner));
    let lines: Vec<String> = arguments.iter().map(line).collect();
    format!("{name}(\n{}\n{})", lines.join(",\n"), " ".repeat(indentation))
}

/// An attribute and the end of its line; without arguments, nothing.
pub(crate) fn attribute(name: &str, arguments: &[Argument], indentation: usize) -> String {
    if arguments.is_empty() {
        return String::new();
    }
    let start = " ".repeat(indentation);
    let line = format!("{start}#[{name}({})]", line(arguments));
    let room = if matches!(arguments, [Argument::List(..)]) { 2 } else { 1 };
    if fits(&line, room) {
        return line + "\n";
    }
    format!("{start}#[{}]\n", list(name, arguments, indentation))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(arguments: &[Argument], expected: &[&str]) {
        assert_eq!(attribute("schema", arguments, 0), expected.join("\n") + "\n");
    }

    #[test]
    fn a_long_attribute_has_a_line_for_each_argument() {
        let (a, b) = ("a".repeat(60), "b".repeat(60));
        let rule = |texts: &[&str]| {
            Argument::List("rule", texts.iter().map(|it| Argument::word(it)).collect())
        };
        check(&[Argument::word("a"), rule(&["b", "c"])], &["#[schema(a, rule(b, c))]"]);
        let (first, second) = (format!("    {a},"), format!("    {b}"));
        check(&[Argument::word(&a), Argument::word(&b)], &["#[schema(", &first, &second, ")]"]);
        check(&[rule(&[&a, &b])], &["#[schema(rule(", &first, &second, "))]"]);
        let lines = [format!("        {a},"), format!("        {b}")];
        let expected = ["#[schema(", "    c,", "    rule(", &lines[0], &lines[1], "    )", ")]"];
        check(&[Argument::word("c"), rule(&[&a, &b])], &expected);
    }
}
