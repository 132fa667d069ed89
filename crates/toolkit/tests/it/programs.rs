//! The programs that tests use: a small operator, `skopeo`, and a `docker-registry` on a free port.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::command_line::Sampan;

/// Whether these programs are installed. If not, the test says so.
#[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
pub(crate) fn are_installed(programs: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_missing =
        |name: &&&str| !std::env::split_paths(&path).any(|folder| folder.join(**name).is_file());
    let missing: Vec<_> = programs.iter().filter(is_missing).collect();
    if !missing.is_empty() {
        eprintln!("skipped: {missing:?} are not installed; `cargo xtask test` installs them");
    }
    missing.is_empty()
}

/// Whether the tests have the rights of root. If not, the test says so.
#[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
pub(crate) fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("skipped: this test mounts a file system or changes its root, and needs root");
    }
    is_root
}

/// Runs a program to its end, and returns its standard output.
pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    let ran = Command::new(program).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{program} {arguments:?}: {errors}");
    String::from_utf8(ran.stdout).unwrap()
}

/// A project with a program, `operator`, that needs no libraries. It is no real one: an ELF header
/// without any content.
pub(crate) fn project_with_program() -> Sampan {
    let project = Sampan::project(&[]);
    let mut program = vec![0; 64];
    program[..6].copy_from_slice(b"\x7fELF\x02\x01");
    program[18] = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    fs::write(project.root().join("operator"), program).unwrap();
    project
}

/// Builds the image of that program.
pub(crate) const BUILD: &str = "image build --project DIR --program DIR/operator";

/// A file system of this size, in memory. It is unmounted when it is dropped.
pub(crate) struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    pub(crate) fn mount(folder: &Path, options: &str) -> Self {
        fs::create_dir_all(folder).unwrap();
        let shown = folder.display().to_string();
        run("mount", &["-t", "tmpfs", "-o", options, "tmpfs", &shown]);
        Self { folder: folder.to_owned() }
    }

    /// The names of the files in it.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A failed test may have left something open in it.
        let _ = Command::new("umount").arg(&self.folder).status();
    }
}

/// The user of a registry with authentication, and its password as `htpasswd -B` writes it.
pub(crate) const USER: &str = "me";
pub(crate) const PASSWORD: &str = "secret";
const HTPASSWD: &str = "me:$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n";

/// Debian's registry, with its files in a temporary folder.
pub(crate) struct DockerRegistry {
    process: Child,
    pub(crate) host: String,
    _folder: TempDir,
}

impl DockerRegistry {
    /// Starts a registry that everybody may write.
    pub(crate) async fn start() -> Self {
        Self::start_with("").await
    }

    /// Starts a registry with a password.
    pub(crate) async fn start_with_password() -> Self {
        Self::start_with("auth: {htpasswd: {realm: test, path: FOLDER/htpasswd}}\n").await
    }

    async fn start_with(settings: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let host = free.local_addr().unwrap().to_string();
        drop(free);
        let root = folder.path().display().to_string();
        let config = format!(
            "version: 0.1\nlog: {{level: error}}\nhttp: {{addr: \"{host}\"}}\n\
             storage: {{filesystem: {{rootdirectory: FOLDER/data}}}}\n{settings}"
        );
        fs::write(folder.path().join("config.yml"), config.replace("FOLDER", &root)).unwrap();
        fs::write(folder.path().join("htpasswd"), HTPASSWD).unwrap();
        let process = Command::new("docker-registry")
            .args(["serve", &format!("{root}/config.yml")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let registry = Self { process, host, _folder: folder };
        let started = async {
            while TcpStream::connect(&registry.host).is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), started).await.unwrap();
        registry
    }
}

impl Drop for DockerRegistry {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
