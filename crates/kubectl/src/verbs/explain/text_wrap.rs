//! Text in lines of limited width.

/// Puts spaces before each line.
pub(super) fn indent(amount: usize, text: &str) -> String {
    let pad = " ".repeat(amount);
    format!("{pad}{}", text.replace('\n', &format!("\n{pad}")))
}

/// Breaks lines between words. Words that are longer than a line stay whole.
pub(super) fn wrap(limit: usize, text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut current, mut word, mut spaces) = (0, String::new(), String::new());
    let length = |text: &str| text.chars().count();
    for c in text.chars() {
        if c == '\n' {
            if word.is_empty() {
                if current + length(&spaces) <= limit {
                    out.push_str(&spaces);
                }
                spaces.clear();
            } else {
                out.push_str(&std::mem::take(&mut spaces));
                out.push_str(&std::mem::take(&mut word));
            }
            out.push('\n');
            current = 0;
        } else if c.is_whitespace() && c != '\u{a0}' {
            if spaces.is_empty() || !word.is_empty() {
                current += length(&spaces) + length(&word);
                out.push_str(&std::mem::take(&mut spaces));
                out.push_str(&std::mem::take(&mut word));
            }
            spaces.push(c);
        } else {
            word.push(c);
            if current + length(&word) + length(&spaces) > limit && length(&word) < limit {
                out.push('\n');
                current = 0;
                spaces.clear();
            }
        }
    }
    if !word.is_empty() || current + length(&spaces) <= limit {
        out.push_str(&spaces);
    }
    out.push_str(&word);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap(9, "one two three"), "one two\nthree");
        assert_eq!(wrap(4, "a\nlonger word"), "a\nlonger\nword");
        assert_eq!(indent(2, "a\nb"), "  a\n  b");
    }
}
