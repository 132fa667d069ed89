//! `sampan image push`.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::IMAGE_FOLDER;
use super::credentials::Credentials;
use super::http_client::OnProgress;
use super::layout::{Descriptor, Layout, Manifest};
use super::pushed;
use super::reference::Reference;
use super::registry::{Registry, RegistryError};
use super::registry_args::RegistryArgs;
use crate::output::Output;
use crate::project_args::ProjectArgs;

const EXAMPLES: &str = "Examples:
  sampan image push
  sampan image push -t localhost:5000/operator-demo:v1
  sampan image push -t registry.example.com/team/operator-demo:v1 --username me --password-stdin < token";

/// The time after which the progress is shown.
const PROGRESS_AFTER: Duration = Duration::from_secs(1);

/// Pushes the image that was built last to a registry
///
/// `sampan deploy` uses the pushed image, by its digest. The credentials are those of `sampan image
/// login`, or of other tools that use ~/.docker/config.json.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ImagePushArgs {
    /// Name in the registry [default: the one with which the image was built]
    #[arg(short, long, value_name = "REGISTRY/NAME:TAG")]
    pub tag: Option<Reference>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "its help is that of its fields")]
    pub registry: RegistryArgs,
    #[command(flatten)]
    #[allow(missing_docs, reason = "its help is that of its fields")]
    pub project: ProjectArgs,
}

impl ImagePushArgs {
    /// Pushes the image. The password is read from `input` if the arguments say so.
    pub async fn run(&self, input: &mut (dyn Read + Send), output: &mut Output<'_>) -> Result<()> {
        let project = self.project.find()?;
        let folder = project.root.join(IMAGE_FOLDER);
        if !Layout::is_layout(&folder) {
            bail!("there is no image in {IMAGE_FOLDER}: build one with `sampan image build`");
        }
        let layout = Layout::open(&folder)?;
        let (image, built_as) = layout.image()?;
        let name = self.tag.clone().or(built_as).context("name the image with --tag")?;
        let name = name.with_default_tag(&project.version);
        let Some(host) = &name.registry else {
            bail!("{name} names no registry: push it with --tag REGISTRY/{name}");
        };
        let tag = name.tag.as_deref().context("the name has no tag")?;
        let credentials = match self.registry.password(input)? {
            Some((user, password)) => Some(Credentials::Password { user, password }),
            None => self.registry.credentials_file()?.get(host)?,
        };
        let user = credentials.as_ref().map(|known| known.user().to_owned());
        let registry = self.registry.registry(host, credentials)?.for_push(&name.repository);
        let push = Push { layout: &layout, image: &image, repository: &name.repository, tag };
        let pushed = push.run(registry).await?;
        pushed.map_err(|error| {
            let error = self.registry.explain(error, host, user.as_deref());
            error.context(format!("cannot push {name}"))
        })?;
        let pushed = format!("{name}@{}", image.digest);
        pushed::record(&project.root, &pushed)?;
        output.line(&pushed)?;
        output.note("next: sampan deploy");
        Ok(())
    }
}

struct Push<'a> {
    layout: &'a Layout,
    image: &'a Descriptor,
    repository: &'a str,
    tag: &'a str,
}

impl Push<'_> {
    /// Sends the blobs that the registry does not have, then the manifest. The inner error is that of
    /// the registry.
    async fn run(&self, mut registry: Registry) -> Result<Result<(), RegistryError>> {
        let manifest: Manifest = self.layout.read_json(self.image)?;
        let blobs: Vec<&Descriptor> = manifest.layers.iter().chain([&manifest.config]).collect();
        let progress = Progress::new(blobs.iter().map(|blob| blob.size).sum());
        let mut sent = 0;
        for blob in blobs {
            let content = Bytes::from(self.layout.read_blob(blob)?);
            let pushed = self.push_blob(&mut registry, blob, &content, &progress, sent).await;
            if pushed.is_err() {
                return Ok(pushed);
            }
            sent += blob.size;
        }
        let content = self.layout.read_blob(self.image)?;
        Ok(registry.push_manifest(self.repository, self.tag, self.image, content).await)
    }

    async fn push_blob(
        &self,
        registry: &mut Registry,
        blob: &Descriptor,
        content: &Bytes,
        progress: &Progress,
        sent: u64,
    ) -> Result<(), RegistryError> {
        if registry.has_blob(self.repository, &blob.digest).await? {
            progress.bar.set_position(sent + blob.size);
            return Ok(());
        }
        let on_start = || progress.bar.set_position(sent);
        let on_progress = progress.on_progress();
        registry.push_blob(self.repository, &blob.digest, content, &on_progress, on_start).await
    }
}

/// The number of bytes that were sent, on a terminal.
struct Progress {
    bar: ProgressBar,
}

impl Progress {
    fn new(total: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        let style =
            ProgressStyle::with_template("{spinner} pushing {bytes}/{total_bytes} ({elapsed})")
                .expect("the template is valid");
        Self { bar: bar.with_style(style) }
    }

    fn on_progress(&self) -> OnProgress {
        let bar = self.bar.clone();
        Arc::new(move |bytes| {
            if bar.is_hidden() && bar.elapsed() > PROGRESS_AFTER {
                // It stays hidden if standard error is no terminal.
                bar.set_draw_target(ProgressDrawTarget::stderr());
            }
            bar.inc(bytes);
        })
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
