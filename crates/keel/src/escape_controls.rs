//! [`escape_controls`]: text of others that is safe to print on a terminal.

use std::borrow::Cow;

/// Replaces the control characters of a text, with which it could change other lines, the title or the
/// input of a terminal, by what stands for them: `^[` for an escape, as kubectl has it. Line ends and
/// tabs stay.
pub fn escape_controls(text: &str) -> Cow<'_, str> {
    let is_escaped = |it: char| it.is_control() && !matches!(it, '\n' | '\t');
    if !text.contains(is_escaped) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\r' => escaped.push_str("\\r"),
            '\0'..='\x1f' if is_escaped(character) => {
                escaped.push('^');
                escaped.push(char::from(character as u8 + b'@'));
            }
            // Also those that begin a sequence in one character.
            other if is_escaped(other) => escaped.extend(other.escape_unicode()),
            other => escaped.push(other),
        }
    }
    escaped.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_visible() {
        assert_eq!(escape_controls("a\x1b]0;pwn\x07\x1b[2Jb\r"), "a^[]0;pwn^G^[[2Jb\\r");
        assert_eq!(escape_controls("\0 \u{9b}2J \u{7f}"), "^@ \\u{9b}2J \\u{7f}");
    }

    #[test]
    fn lines_tabs_and_all_letters_stay() {
        let text = "a\tb\n^[ 网络 \\r é";
        assert!(matches!(escape_controls(text), Cow::Borrowed(same) if same == text));
    }
}
