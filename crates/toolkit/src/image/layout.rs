//! [`Layout`]: a folder with an image, as the OCI image layout specification describes it.
//!
//! ```text
//! oci-layout            the version of the layout
//! index.json            the descriptor of the manifest, with the name of the image
//! blobs/sha256/HEX      the manifest, the configuration, and the layers (tar, compressed)
//! ```

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use flate2::{Compression, GzBuilder};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::archive::{Archive, Content};
use super::digest::{Digest, DigestWriter};
use super::reference::Reference;

pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(super) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(super) const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// The annotation with the tag, for skopeo.
const TAG: &str = "org.opencontainers.image.ref.name";
/// The annotation with the whole name, for containerd.
const NAME: &str = "io.containerd.image.name";

/// A reference to a blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    pub(crate) media_type: String,
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) platform: Option<Value>,
}

/// The manifest of an image.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    pub(crate) schema_version: u32,
    pub(crate) media_type: String,
    pub(crate) config: Descriptor,
    pub(crate) layers: Vec<Descriptor>,
}

/// The index of a layout, or one in it.
#[derive(Debug, Deserialize)]
pub(super) struct Index {
    pub(super) manifests: Vec<Descriptor>,
}

/// A layer that was written, and the digest of its content before compression.
pub(super) struct WrittenLayer {
    pub(super) descriptor: Descriptor,
    pub(super) content: Digest,
}

/// See the [module documentation](self).
pub(crate) struct Layout {
    root: PathBuf,
}

impl Layout {
    /// A new layout in an empty folder.
    pub(super) fn create(root: &Path) -> Result<Self> {
        let blobs = root.join("blobs/sha256");
        fs::create_dir_all(&blobs).with_context(|| cannot_write(&blobs))?;
        let layout = Self { root: root.to_owned() };
        layout.write("oci-layout", &json!({"imageLayoutVersion": "1.0.0"}).to_string())?;
        Ok(layout)
    }

    /// A layout that exists.
    pub(super) fn open(root: &Path) -> Result<Self> {
        if !Self::is_layout(root) {
            bail!("{} is not an OCI image layout: it has no file oci-layout", root.display());
        }
        Ok(Self { root: root.to_owned() })
    }

    /// Whether a folder is an OCI image layout.
    pub(super) fn is_layout(root: &Path) -> bool {
        root.join("oci-layout").is_file()
    }

    /// The file of a blob.
    fn path(&self, digest: &Digest) -> PathBuf {
        self.root.join("blobs/sha256").join(digest.hex())
    }

    /// Writes a blob.
    pub(super) fn write_blob(&self, media_type: &str, bytes: &[u8]) -> Result<Descriptor> {
        let digest = Digest::of(bytes);
        let path = self.path(&digest);
        write_synced(&path, bytes).with_context(|| cannot_write(&path))?;
        Ok(descriptor(media_type, digest, bytes.len() as u64))
    }

    /// Compresses and writes a layer, whose entries have this modification time.
    pub(super) fn write_layer(&self, archive: &Archive, seconds: u64) -> Result<WrittenLayer> {
        let path = self.root.join("blobs/sha256/layer");
        let file = File::create(&path).with_context(|| cannot_write(&path))?;
        // Without the time of the compression.
        let compressed = DigestWriter::new(BufWriter::new(file));
        let gzip = GzBuilder::new().mtime(0).write(compressed, Compression::default());
        let tar = archive.write(DigestWriter::new(gzip), seconds);
        let (gzip, content, _) = tar.with_context(|| cannot_write(&path))?.finish();
        let (buffered, digest, size) = gzip.finish().with_context(|| cannot_write(&path))?.finish();
        let file = buffered.into_inner().map_err(std::io::IntoInnerError::into_error);
        file.and_then(|file| file.sync_all())
            .and_then(|()| fs::rename(&path, self.path(&digest)))
            .with_context(|| cannot_write(&path))?;
        Ok(WrittenLayer { descriptor: descriptor(LAYER, digest, size), content })
    }

    /// Writes the manifest, and the index with the name of the image.
    pub(super) fn finish(&self, manifest: &Manifest, name: &Reference) -> Result<Descriptor> {
        let mut written = self.write_blob(MANIFEST, &serde_json::to_vec(manifest)?)?;
        written.annotations.insert(NAME.to_owned(), name.to_string());
        written.annotations.extend(name.tag.clone().map(|tag| (TAG.to_owned(), tag)));
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [&written]});
        self.write("index.json", &index.to_string())?;
        Ok(written)
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.root.join(name);
        write_synced(&path, text.as_bytes()).with_context(|| cannot_write(&path))
    }

    /// The index of the layout.
    pub(super) fn index(&self) -> Result<Index> {
        let path = self.root.join("index.json");
        let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("{} is not valid", path.display()))
    }

    /// The only image of the layout, and the name that was given to it.
    pub(super) fn image(&self) -> Result<(Descriptor, Option<Reference>)> {
        let [image] = <[Descriptor; 1]>::try_from(self.index()?.manifests).map_err(|found| {
            anyhow::anyhow!("{} has {} images, not one", self.root.display(), found.len())
        })?;
        let name = image.annotations.get(NAME).map(|name| name.parse()).transpose();
        Ok((image, name.map_err(|error: String| anyhow::anyhow!(error))?))
    }

    /// The content of a blob, which is as long as its descriptor says and has its digest.
    pub(crate) fn read_blob(&self, blob: &Descriptor) -> Result<Vec<u8>> {
        let path = self.path(&blob.digest);
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        if bytes.len() as u64 != blob.size || Digest::of(&bytes) != blob.digest {
            bail!("{} is damaged: its content is not that of its digest", path.display());
        }
        Ok(bytes)
    }

    /// The JSON document in a blob.
    pub(super) fn read_json<T: for<'de> Deserialize<'de>>(&self, blob: &Descriptor) -> Result<T> {
        let path = self.path(&blob.digest);
        serde_json::from_slice(&self.read_blob(blob)?)
            .with_context(|| format!("{} is not a valid {}", path.display(), blob.media_type))
    }

    /// The files of the layout, by their paths in it.
    fn files(&self) -> Result<Vec<String>> {
        let (image, _) = self.image()?;
        let manifest: Manifest = self.read_json(&image)?;
        let mut files = vec!["oci-layout".to_owned(), "index.json".to_owned()];
        for blob in [&image, &manifest.config].into_iter().chain(&manifest.layers) {
            files.push(format!("blobs/sha256/{}", blob.digest.hex()));
        }
        Ok(files)
    }

    /// The layout as an archive.
    pub(super) fn archive(&self) -> Result<Archive> {
        let mut archive = Archive::default();
        for file in self.files()? {
            let content = Content::CopyOf(self.root.join(&file));
            archive.add_file_and_folders(&file, 0o644, content);
        }
        Ok(archive)
    }

    /// Copies the layout to a new folder.
    pub(super) fn copy_to(&self, root: &Path) -> Result<()> {
        let copy = Self::create(root)?;
        for file in self.files()? {
            let path = copy.root.join(&file);
            fs::read(self.root.join(&file))
                .and_then(|bytes| write_synced(&path, &bytes))
                .with_context(|| cannot_write(&path))?;
        }
        Ok(())
    }
}

fn descriptor(media_type: &str, digest: Digest, size: u64) -> Descriptor {
    let media_type = media_type.to_owned();
    Descriptor { media_type, digest, size, annotations: BTreeMap::new(), platform: None }
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

fn write_synced(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all() // some file systems report a full disk only here
}
