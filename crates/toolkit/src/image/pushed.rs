//! The record of the image that was pushed last, which `sampan deploy` uses.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};

/// The file, in the project.
const FILE: &str = "target/sampan/pushed.json";

/// Writes down the name and the digest of a pushed image.
pub(super) fn record(root: &Path, image: &str) -> Result<()> {
    let path = root.join(FILE);
    fs::write(&path, json!({"image": image}).to_string()).with_context(|| {
        format!(
            "the image was pushed, but cannot write {}: deploy it with --image {image}",
            path.display()
        )
    })
}

/// The name and the digest of the image that was pushed last.
pub(crate) fn pushed_image(root: &Path) -> Result<Option<String>> {
    let path = root.join(FILE);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(anyhow!(error).context(format!("cannot read {}", path.display()))),
    };
    let document: Value = serde_json::from_slice(&text).unwrap_or_default();
    let image = document["image"].as_str().map(str::to_owned);
    let invalid = || format!("{} is not valid: remove it, or name an --image", path.display());
    Ok(Some(image.with_context(invalid)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_cannot_be_read_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(pushed_image(root.path()).unwrap(), None);
        fs::create_dir_all(root.path().join("target/sampan")).unwrap();
        record(root.path(), "demo@sha256:0").unwrap();
        assert_eq!(pushed_image(root.path()).unwrap().as_deref(), Some("demo@sha256:0"));
        fs::write(root.path().join(FILE), "{").unwrap();
        assert!(pushed_image(root.path()).unwrap_err().to_string().contains("remove it"));
    }
}
