//! [`Sampan`]: a folder in which commands are called with the arguments of a command line.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use futures_util::FutureExt;
use tempfile::TempDir;

use toolkit::{
    AddControllerArgs, CreateApiArgs, CreateWebhookArgs, DoctorArgs, GenerateArgs, ImageBuildArgs,
    ImageLoginArgs, ImagePushArgs, InitArgs, ManifestsArgs, Output,
};

/// The textbook's commands, for a project in this folder.
pub(crate) const INIT: &str =
    "init DIR --domain mock.com --repo github.com/zhhnzw/operator-demo/v1 --sampan-version 0.1.0";
pub(crate) const CUSTOM_POD: &str = "create api --project DIR --group zhhnzw --version v1 --kind=CustomPod --resource=true --controller=true";

#[derive(Parser)]
#[command(version, propagate_version = true)] // as the program
enum Line {
    Init(InitArgs),
    #[command(subcommand)]
    Create(Create),
    #[command(subcommand)]
    Add(Add),
    Manifests(ManifestsArgs),
    Generate(GenerateArgs),
    #[command(subcommand)]
    Image(Image),
    Doctor(DoctorArgs),
}

#[derive(clap::Subcommand)]
enum Image {
    Build(ImageBuildArgs),
    Push(ImagePushArgs),
    Login(ImageLoginArgs),
}

#[derive(clap::Subcommand)]
enum Create {
    Api(CreateApiArgs),
    Webhook(CreateWebhookArgs),
}

#[derive(clap::Subcommand)]
enum Add {
    Controller(AddControllerArgs),
}

/// See the [module documentation](self).
pub(crate) struct Sampan {
    root: PathBuf,
    _folder: Option<TempDir>,
}

impl Sampan {
    /// An empty folder.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { root: folder.path().join("operator-demo"), _folder: Some(folder) }
    }

    /// A folder that stays, and is emptied, so that what was built of a project is used again.
    pub(crate) fn at(root: PathBuf) -> Self {
        if root.exists() {
            fs::remove_dir_all(&root).unwrap();
        }
        Self { root, _folder: None }
    }

    /// A folder with a project, on which these commands were called.
    pub(crate) fn project(commands: &[&str]) -> Self {
        let sampan = Self::new();
        sampan.run_all(commands);
        sampan
    }

    /// Makes a project, and calls these commands on it.
    pub(crate) fn run_all(&self, commands: &[&str]) {
        self.run(INIT).unwrap();
        for command in commands {
            self.run(command).unwrap();
        }
    }

    /// The folder of the project.
    pub(crate) fn root(&self) -> PathBuf {
        self.root.clone()
    }

    /// Calls a command, in which `DIR` is the folder of the project; returns what it has printed.
    pub(crate) fn run(&self, command: &str) -> Result<String, String> {
        self.run_with(command, "").now_or_never().expect("the command sends no request")
    }

    /// Calls a command that reads `input`.
    pub(crate) async fn run_with(&self, command: &str, input: &str) -> Result<String, String> {
        let root = self.root().display().to_string();
        let words = command.split_whitespace().map(|word| word.replace("DIR", &root));
        let line = Line::try_parse_from(["sampan".to_owned()].into_iter().chain(words));
        let line = line.map_err(|error| error.to_string())?;
        let (mut results, mut notes) = (Vec::new(), Vec::new());
        let output = &mut Output::new(&mut results, &mut notes);
        let input = &mut input.as_bytes();
        let ran = match line {
            Line::Init(args) => args.run(output),
            Line::Create(Create::Api(args)) => args.run(output),
            Line::Create(Create::Webhook(args)) => args.run(output),
            Line::Add(Add::Controller(args)) => args.run(output),
            Line::Manifests(args) => args.run(output),
            Line::Generate(args) => args.run(input, output).await,
            Line::Image(Image::Build(args)) => args.run(output),
            Line::Image(Image::Push(args)) => args.run(input, output).await,
            Line::Image(Image::Login(args)) => args.run(input, output).await,
            Line::Doctor(args) => args.run(output).await,
        };
        let printed = String::from_utf8(results).unwrap();
        ran.map_err(|error| format!("{printed}{error:#}").replace(&root, "DIR"))?;
        Ok((printed + &String::from_utf8(notes).unwrap()).replace(&root, "DIR"))
    }

    /// Calls a command that is refused without a change, and returns the message.
    pub(crate) fn refused(&self, command: &str) -> String {
        let before = files(&self.root());
        let error = self.run(command).unwrap_err();
        assert_eq!(files(&self.root()), before, "{command}: {error}");
        error
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).unwrap()
    }

    /// Changes a file, as a user does.
    pub(crate) fn replace(&self, path: &str, old: &str, new: &str) {
        let text = self.read(path);
        assert!(text.contains(old), "{path} has no {old:?}: {text}");
        fs::write(self.root().join(path), text.replace(old, new)).unwrap();
    }
}

/// The files below a folder, by their paths.
pub(crate) fn files(root: &Path) -> BTreeMap<String, String> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().display().to_string();
                found.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

#[test]
fn flags_do_not_clash() {
    <Line as clap::CommandFactory>::command().debug_assert();
}
