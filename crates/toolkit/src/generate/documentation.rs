//! [`doc_comment`]: a description as a doc comment that rustdoc reads as plain text.
//!
//! The Markdown of a description is not meant for rustdoc: a `<name>` would be an HTML tag, `[a]` a link to
//! an item, and four spaces a test. Inline code, lists and paragraphs stay.

use super::literal::needs_escape;

/// The longest line, without the indentation.
const WIDTH: usize = 100;

/// The lines of a description, as in a doc comment but without the slashes. They are empty without a
/// description.
pub(crate) fn doc_lines(description: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in description.lines() {
        let plain: String = line.chars().map(|it| if it == '\t' { ' ' } else { it }).collect();
        let plain: String = plain.chars().filter(|it| !needs_escape(*it)).collect();
        let plain = plain.trim();
        if plain.is_empty() {
            if lines.last().is_some_and(|last| !last.is_empty()) {
                lines.push(String::new());
            }
            continue;
        }
        lines.extend(wrapped(&escaped(plain), width));
    }
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

/// A doc comment, with this indentation.
pub(crate) fn doc_comment(description: &str, indentation: &str) -> String {
    let width = WIDTH - indentation.len() - "/// ".len();
    let lines = doc_lines(description, width);
    lines
        .iter()
        .map(|line| format!("{indentation}/// {line}").trim_end().to_owned() + "\n")
        .collect()
}

/// Breaks a line between words. A continued line must not begin with what Markdown takes for a list or a
/// heading.
fn wrapped(line: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in line.split(' ').filter(|it| !it.is_empty()) {
        let fits = |line: &String| line.chars().count() + 1 + word.chars().count() <= width;
        match lines.last_mut() {
            Some(last) if last.is_empty() => last.push_str(word),
            Some(last) if fits(last) || begins_block(word) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Whether a line that begins with this word is no plain text.
fn begins_block(word: &str) -> bool {
    let is_number = || {
        let digits = word.trim_end_matches(['.', ')']);
        digits.len() < word.len() && digits.chars().all(|it| it.is_ascii_digit())
    };
    matches!(word, "-" | "+" | "*") || word.starts_with(['#', '>', '=', '|', '~']) || is_number()
}

/// A line in which only inline code and lists are Markdown.
fn escaped(line: &str) -> String {
    if let Some(element) = line.strip_prefix("* ") {
        return format!("* {}", escaped(element.trim_start()));
    }
    let parts: Vec<&str> = line.split('`').collect();
    let has_code = parts.len() % 2 == 1 && !line.contains("``");
    if !has_code {
        return escaped_start(&escaped_text(line, true));
    }
    let mut text = String::new();
    for (index, part) in parts.iter().enumerate() {
        if index % 2 == 1 {
            text += &format!("`{part}`");
        } else {
            text += &escaped_text(part, false);
        }
    }
    escaped_start(&text)
}

/// The first characters of a line, which could make it a heading, a quotation or a rule.
fn escaped_start(line: &str) -> String {
    let is_rule = line.len() > 1 && line.chars().all(|it| matches!(it, '-' | '=' | ' '));
    if line.starts_with(['#', '>', '=', '|', '~']) || is_rule || line.starts_with("---") {
        format!("\\{line}")
    } else {
        line.to_owned()
    }
}

/// Text outside of code. URLs become links, and characters of Markdown are escaped.
fn escaped_text(text: &str, escapes_backticks: bool) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(start) = url_start(rest) {
        result += &escaped_characters(&rest[..start], escapes_backticks);
        let length = url_length(&rest[start..]);
        result += &format!("<{}>", &rest[start..start + length]);
        rest = &rest[start + length..];
    }
    result + &escaped_characters(rest, escapes_backticks)
}

fn escaped_characters(text: &str, escapes_backticks: bool) -> String {
    let mut result = String::new();
    for letter in text.chars() {
        let is_markdown = matches!(letter, '\\' | '<' | '[' | ']' | '*' | '_');
        if is_markdown && !is_plain_underscore(letter, &result)
            || letter == '`' && escapes_backticks
        {
            result.push('\\');
        }
        result.push(letter);
    }
    result
}

/// Whether an underscore stands inside of a word, where it is no emphasis.
fn is_plain_underscore(letter: char, before: &str) -> bool {
    letter == '_' && before.ends_with(|it: char| it.is_alphanumeric())
}

/// Where the first URL begins that is long enough to be one.
fn url_start(text: &str) -> Option<usize> {
    let starts =
        ["https://", "http://"].map(|scheme| text.find(scheme).map(|at| (at, scheme.len())));
    let (start, scheme) = starts.into_iter().flatten().min()?;
    if url_length(&text[start..]) > scheme {
        return Some(start);
    }
    // A scheme alone, as in "begins with https://".
    let rest = start + scheme;
    url_start(&text[rest..]).map(|at| at + rest)
}

/// The length of the URL at the beginning, without the punctuation after it.
fn url_length(text: &str) -> usize {
    let ends = |it: char| it.is_whitespace() || it.is_control() || "<>\"'`[](){}|\\^,".contains(it);
    let url = &text[..text.find(ends).unwrap_or(text.len())];
    url.trim_end_matches(['.', ';', ':', '!', '?', '*', '_']).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(description: &str, expected: &str) {
        assert_eq!(doc_lines(description, 40).join("\n"), expected);
    }

    #[test]
    fn plain_text_inline_code_and_lists_stay() {
        check("The `name<T>` of\n\n\n- a list\n", "The `name<T>` of\n\n- a list");
        check(
            "A long line is broken before the word that does not fit.",
            "A long line is broken before the word\nthat does not fit.",
        );
        check("snake_case stays", "snake_case stays");
    }

    #[test]
    fn what_rustdoc_would_take_for_markdown_is_escaped() {
        check("<a> [b] *c* \\d", r"\<a> \[b\] \*c\* \\d");
        check("* a *b*", r"* a \*b\*");
        check("```\n    code\n```", "\\`\\`\\`\ncode\n\\`\\`\\`");
        check("an odd ` in a line", "an odd \\` in a line");
        check("# no heading\n---\n> quote", "\\# no heading\n\\---\n\\> quote");
        check("a\u{202e}b\u{7}\tc", "ab c");
    }

    #[test]
    fn urls_become_links() {
        check("See (https://a.io/b_c).", "See (<https://a.io/b_c>).");
        check("https:// or http://x", "https:// or <http://x>");
        check("`http://a`", "`http://a`");
    }

    #[test]
    fn a_continued_line_begins_no_list() {
        let line = "There are more words in this line here - 1. than fit";
        check(line, "There are more words in this line here - 1.\nthan fit");
    }

    #[test]
    fn a_comment_has_no_trailing_spaces() {
        assert_eq!(doc_comment("a\n\nb", "    "), "    /// a\n    ///\n    /// b\n");
        assert_eq!(doc_comment(" ", ""), "");
    }
}
