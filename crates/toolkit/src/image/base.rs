//! [`Base`]: the image below the operator, if there is one.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::layout::{Descriptor, INDEX, Index, Layout, MANIFEST, Manifest};
use super::platform::Platform;

/// The image below the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Base {
    /// None: users, certificates and libraries are those of this machine.
    None,
    /// That in an OCI image layout, such as `skopeo copy` writes.
    Layout(PathBuf),
}

impl FromStr for Base {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(if text == "none" { Self::None } else { Self::Layout(text.into()) })
    }
}

/// The layers and the configuration of a base.
pub(super) struct BaseImage {
    pub(super) layers: Vec<Descriptor>,
    pub(super) config: Value,
}

impl Base {
    /// Reads the base for a platform, and copies its layers to `layout`.
    pub(super) fn copy_to(&self, layout: &Layout, platform: Platform) -> Result<Option<BaseImage>> {
        let Self::Layout(folder) = self else { return Ok(None) };
        let base = Layout::open(folder).context(
            "cannot use --base: write the base to a folder first, as in `skopeo copy \
             docker://registry.example.com/base:v1 oci:DIR`",
        )?;
        let shown = folder.display();
        let found = manifest(&base, base.index()?.manifests, platform)?;
        let manifest: Manifest = base.read_json(&found)?;
        let config: Value = base.read_json(&manifest.config)?;
        if config["architecture"] != platform.architecture() || config["os"] != "linux" {
            bail!("the base in {shown} is not for {platform}");
        }
        for layer in &manifest.layers {
            let bytes = base.read_blob(layer)?;
            layout.write_blob(&layer.media_type, &bytes)?;
        }
        Ok(Some(BaseImage { layers: manifest.layers, config }))
    }
}

/// The manifest for a platform among those of an index, which may refer to another index.
fn manifest(base: &Layout, mut found: Vec<Descriptor>, platform: Platform) -> Result<Descriptor> {
    if let [index] = found.as_slice()
        && index.media_type == INDEX
    {
        found = base.read_json::<Index>(index)?.manifests;
    }
    let is_for_platform = |descriptor: &&Descriptor| match &descriptor.platform {
        Some(named) => named["os"] == "linux" && named["architecture"] == platform.architecture(),
        None => true, // its configuration is checked
    };
    let mut matching =
        found.iter().filter(|one| one.media_type == MANIFEST).filter(is_for_platform);
    match (matching.next(), matching.next()) {
        (Some(manifest), None) => Ok(manifest.clone()),
        (None, _) => bail!("the base has no OCI image for {platform}"),
        (Some(_), Some(_)) => bail!("the base has several images for {platform}, not one"),
    }
}
