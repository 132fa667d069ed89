//! [`pem_blocks`]: the blocks of a PEM text, as Go's `pem.Decode` finds them.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// A block of a PEM text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PemBlock {
    /// `CERTIFICATE`
    pub(super) label: String,
    /// Whether it begins with lines such as `Proc-Type: 4,ENCRYPTED`.
    pub(super) has_headers: bool,
    /// The decoded content.
    pub(super) content: Vec<u8>,
}

/// All blocks. Text between blocks, and blocks that are not complete, are ignored.
pub(super) fn pem_blocks(text: &str) -> Vec<PemBlock> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().map(str::trim_end);
    while let Some(line) = lines.next() {
        let begin = line.strip_prefix("-----BEGIN ").and_then(|it| it.strip_suffix("-----"));
        let Some(label) = begin else { continue };
        let end = format!("-----END {label}-----");
        let mut rest = lines.clone();
        let (mut has_headers, mut encoded, mut is_complete) = (false, String::new(), false);
        for line in rest.by_ref() {
            if line == end {
                is_complete = true;
                break;
            }
            if line.contains(':') {
                has_headers = true;
            } else {
                encoded.push_str(line);
            }
        }
        let content = BASE64_STANDARD.decode(encoded.replace(char::is_whitespace, ""));
        if let (true, Ok(content)) = (is_complete, content) {
            blocks.push(PemBlock { label: label.to_owned(), has_headers, content });
            lines = rest;
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_blocks_and_other_text_are_ignored() {
        let block = "-----BEGIN A-----\nYQ==\n-----END A-----\n";
        let text = format!(
            "x\n{block}-----BEGIN B-----\n%\n-----END B-----\n{block}-----BEGIN A-----\nYQ=="
        );
        let labels: Vec<String> = pem_blocks(&text).into_iter().map(|it| it.label).collect();
        assert_eq!(labels, ["A", "A"]);
        assert_eq!(pem_blocks(block)[0].content, b"a");
    }
}
