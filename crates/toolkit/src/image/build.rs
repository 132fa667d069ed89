//! `sampan image build`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use super::IMAGE_FOLDER;
use super::base::Base;
use super::config::{ConfigSource, labels, source_date};
use super::layout::{CONFIG, Descriptor, Layout, MANIFEST, Manifest};
use super::libraries::find_ca_certificates;
use super::platform::{Libc, Platform};
use super::program::Program;
use super::reference::Reference;
use super::root_files::{self, Layer};
use super::staging::{Staging, write_archive};
use crate::output::Output;
use crate::project::Project;
use crate::project_args::BuildArgs;

const EXAMPLES: &str = "Examples:
  sampan image build -t registry.example.com/team/operator-demo:v1
  sampan image build --platform linux/arm64
  sampan image build --output image.tar && ctr images import image.tar
  sampan image build --output layout && skopeo inspect oci:layout";

/// Builds a container image of the operator, without Docker
///
/// The image is an OCI image of the operator, built for release, with CA certificates and an
/// unprivileged user (65532). If Rust's musl target and a C compiler for it are installed, the operator
/// is a static program; otherwise the C library of this machine is copied to the image, and --libc
/// decides. The same operator has the same digest whenever it is built; `SOURCE_DATE_EPOCH` sets the
/// time that the image shows. The image is kept in target/sampan/image, where `sampan image push` finds
/// it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ImageBuildArgs {
    /// Name of the image [default: the name and the version of the project]
    #[arg(short, long, value_name = "REGISTRY/NAME:TAG")]
    pub tag: Option<Reference>,
    /// Also write the image to a file that ends with .tar, or to a folder
    #[arg(short, long, value_name = "FILE.tar|DIR")]
    pub output: Option<PathBuf>,
    /// linux/amd64 or linux/arm64 [default: that of this machine]
    #[arg(long)]
    pub platform: Option<Platform>,
    /// C library of the program [default: musl if it is installed]
    #[arg(long, value_enum)]
    pub libc: Option<Libc>,
    /// Image below the operator: none, or a folder with an OCI image layout, which has its C library
    #[arg(long, value_name = "none|DIR", default_value = "none")]
    pub base: Base,
    /// Program to use, which is not built
    #[arg(long, value_name = "FILE", conflicts_with = "libc")]
    pub program: Option<PathBuf>,
    /// Further label, such as org.opencontainers.image.revision=COMMIT
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_label)]
    pub label: Vec<(String, String)>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "its help is that of its fields")]
    pub build: BuildArgs,
}

fn parse_label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a label is like NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

impl ImageBuildArgs {
    /// Builds the image.
    pub fn run(&self, output: &mut Output<'_>) -> Result<()> {
        let (project, cargo) = self.build.find()?;
        let seconds = source_date()?;
        let name = self.name(&project)?;
        let platform = match self.platform {
            Some(platform) => platform,
            None => Platform::of_this_machine()
                .context("choose a --platform: there are no images for this machine's one")?,
        };
        if let Some(folder) = self.output_folder() {
            Staging::new(folder)?; // before a long build
        }
        let program = match &self.program {
            Some(path) => Program::read(path, platform)?,
            None => Program::build(&cargo, &project.name, platform, self.libc)?,
        };
        let staging = Staging::new(&project.root.join(IMAGE_FOLDER))?;
        let layout = Layout::create(&staging.path())?;
        let image = Image { project: &project, program: &program, platform, seconds, name: &name };
        let written = self.write(&image, &layout, output)?;
        match &self.output {
            Some(file) if self.output_folder().is_none() => {
                write_archive(&layout.archive()?, file, seconds)?;
            }
            Some(folder) => {
                let copy = Staging::new(folder)?;
                layout.copy_to(&copy.path())?;
                copy.commit()?;
            }
            None => {}
        }
        staging.commit()?;
        output.line(&format!("{name}@{}", written.digest))?;
        output.note(match name.registry {
            Some(_) => "next: sampan image push",
            None => "next: sampan image push -t REGISTRY/NAME:TAG",
        });
        Ok(())
    }

    fn name(&self, project: &Project) -> Result<Reference> {
        let name = match &self.tag {
            Some(name) => name.clone(),
            None => project.name.parse().map_err(|error: String| {
                anyhow!(error).context("the project's name is none of an image: name it with --tag")
            })?,
        };
        Ok(name.with_default_tag(&project.version))
    }

    /// The folder of `--output`, unless that is a file.
    fn output_folder(&self) -> Option<&Path> {
        let output = self.output.as_deref()?;
        output.extension().is_none_or(|extension| extension != "tar").then_some(output)
    }

    /// Writes the image to a layout, and returns the descriptor of its manifest.
    fn write(
        &self,
        image: &Image<'_>,
        layout: &Layout,
        output: &mut Output<'_>,
    ) -> Result<Descriptor> {
        let base = self.base.copy_to(layout, image.platform)?;
        let mut layers = Vec::new();
        if base.is_none() {
            if find_ca_certificates().is_none() {
                output.note(
                    "this machine has no CA certificates for the image, so the operator can verify \
                     only servers whose authority it is given; install ca-certificates",
                );
            }
            layers.push(root_files::users_and_certificates());
            layers.extend(root_files::libraries(image.program)?);
        } else if image.program.interpreter.is_some() {
            output.note(
                "the program is dynamic: the base must have its C library, or use --libc musl",
            );
        }
        let name = &image.project.name;
        layers.push(root_files::program(image.program, name, base.is_some()));
        let (mut descriptors, base_config) = match base {
            Some(base) => (base.layers, Some(base.config)),
            None => (Vec::new(), None),
        };
        let mut contents = Vec::new();
        for Layer { archive, comment } in &layers {
            let written = layout.write_layer(archive, image.seconds)?;
            descriptors.push(written.descriptor);
            contents.push((written.content, *comment));
        }
        let mut labels = labels(image.project);
        labels.extend(self.label.iter().cloned());
        let source = ConfigSource {
            name,
            platform: image.platform,
            seconds: image.seconds,
            labels,
            layers: contents,
            base: base_config,
        };
        let config = layout.write_blob(CONFIG, &serde_json::to_vec(&source.document()?)?)?;
        let media_type = MANIFEST.to_owned();
        let manifest = Manifest { schema_version: 2, media_type, config, layers: descriptors };
        layout.finish(&manifest, image.name)
    }
}

/// What an image is made of.
struct Image<'a> {
    project: &'a Project,
    program: &'a Program,
    platform: Platform,
    seconds: u64,
    name: &'a Reference,
}
