//! [`mask`]: replaces what differs from run to run.

use machinery::timestamp;

/// Whether a line of standard error counts: kubectl logs the repetitions of failed requests.
pub(crate) fn mask_line(line: &str) -> bool {
    !line.contains(" memcache.go:")
        && !line.contains(" prune.go:")
        && !line.contains("WARNING: version difference")
}

/// Replaces times, ages, uids, revisions and generated suffixes.
pub(crate) fn mask(text: &str) -> String {
    let mut out = String::new();
    for line in without_dates(text).split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |it| (it, "\n"));
        if line.replace('"', "").trim_start().starts_with("creationTimestamp: null") {
            continue;
        }
        if line.trim_start().starts_with("Resource Version:") {
            continue;
        }
        // The heads of differences have a time with fractions of seconds.
        let line = match line.split_once('\t') {
            Some((head, _)) if line.starts_with("--- ") || line.starts_with("+++ ") => head,
            _ => line,
        };
        let mut is_revision = false;
        let words = line.split(' ').map(|word| {
            let masked = if is_revision { "REVISION".to_owned() } else { mask_word(word) };
            is_revision = word.trim_end() == "resourceVersion:" || word == "\"resourceVersion\":";
            masked
        });
        // Ages have different widths, so that the spaces after them differ.
        let mut is_padding = false;
        for (index, word) in words.enumerate() {
            if word.is_empty() && is_padding {
                continue;
            }
            if index > 0 {
                out.push(' ');
            }
            is_padding = word == "AGE" || word.starts_with("(AGE");
            out.push_str(&word);
        }
        out.push_str(end);
    }
    out
}

/// Replaces dates such as `Wed, 18 Nov 2026 20:53:26 +0000`, whose width is always the same.
fn without_dates(text: &str) -> String {
    const ZONE: &str = " +0000";
    const WIDTH: usize = "Wed, 18 Nov 2026 20:53:26".len();
    let mut out = String::new();
    let mut parts = text.split(ZONE).peekable();
    while let Some(part) = parts.next() {
        let start = part.len().checked_sub(WIDTH);
        match start.filter(|_| parts.peek().is_some()) {
            Some(start) if part.is_char_boundary(start) => {
                out.push_str(&part[..start]);
                out.push_str("DATE");
            }
            _ => out.push_str(part),
        }
    }
    out
}

fn mask_word(word: &str) -> String {
    let mut masked = String::new();
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-:.".contains(c);
    let mut rest = word;
    while let Some(start) = rest.find(is_part) {
        masked.push_str(&rest[..start]);
        let part = &rest[start..];
        let length = part.find(|c| !is_part(c)).unwrap_or(part.len());
        masked.push_str(&mask_part(&part[..length]));
        rest = &part[length..];
    }
    masked.push_str(rest);
    masked
}

fn mask_part(part: &str) -> String {
    for folder in ["LIVE-", "MERGED-"] {
        if part.starts_with(folder) {
            return folder.to_owned();
        }
    }
    let bare = part.trim_end_matches([':', '.']);
    let masked = if timestamp::parse(bare).is_some() {
        "TIME"
    } else if is_age(bare) {
        "AGE"
    } else if is_uid(bare) {
        "UID"
    } else if let Some(masked) = masked_name(bare) {
        return format!("{masked}{}", &part[bare.len()..]);
    } else {
        return part.to_owned();
    };
    format!("{masked}{}", &part[bare.len()..])
}

/// `5m20s`, `3d`
fn is_age(text: &str) -> bool {
    let mut digits = 0;
    for c in text.chars() {
        match c {
            '0'..='9' => digits += 1,
            's' | 'm' | 'h' | 'd' | 'y' if digits > 0 => digits = 0,
            _ => return false,
        }
    }
    !text.is_empty() && digits == 0
}

fn is_uid(text: &str) -> bool {
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && text.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
}

/// The name of a pod such as `web-7957885594-jljl7`. The hash of its template depends on the time of
/// a `rollout restart`, the suffix is random.
fn masked_name(text: &str) -> Option<String> {
    const LETTERS: &str = "bcdfghjklmnpqrstvwxz2456789";
    let (stem, suffix) = text.rsplit_once('-')?;
    if suffix.len() != 5 || !suffix.chars().all(|c| LETTERS.contains(c)) {
        return None;
    }
    if stem == "kube-api-access" {
        return Some(format!("{stem}-SUFFIX"));
    }
    let (owner, hash) = stem.rsplit_once('-')?;
    let is_hash = (8..=10).contains(&hash.len()) && hash.chars().all(|c| LETTERS.contains(c));
    is_hash.then(|| format!("{owner}-HASH-SUFFIX"))
}

#[test]
fn what_differs_from_run_to_run_is_masked() {
    assert_eq!(mask("a   5m20s   b\n"), "a   AGE b\n");
    assert_eq!(mask("web-7957885594-jljl7"), "web-HASH-SUFFIX");
    assert_eq!(mask("kube-api-access-jljl7:"), "kube-api-access-SUFFIX:");
    assert_eq!(mask("uid: b0d79ebf-834c-4f69-9f6b-66aab00388ae"), "uid: UID");
    assert_eq!(mask("\"2026-01-02T03:04:05Z\""), "\"TIME\"");
}
