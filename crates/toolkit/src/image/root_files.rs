//! The layers of an image: users and certificates, the C library, and the program.

use anyhow::{Context, Result};

use super::archive::{Archive, Content};
use super::libraries::{find_ca_certificates, find_libraries};
use super::program::Program;

/// The user of the program; `sampan deploy` runs it as this one.
pub(super) const USER: &str = "65532:65532";
/// The certificates of authorities in an image without a base.
pub(super) const CA_FILE: &str = "/etc/ssl/certs/ca-certificates.crt";

const PASSWD: &str = "root:x:0:0:root:/root:/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin
nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin
";
const GROUP: &str = "root:x:0:\nnobody:x:65534:\nnonroot:x:65532:\n";
/// The order of files and DNS for the names of hosts.
const NSSWITCH: &str = "hosts: files dns\n";

/// A layer, and its entry in the history of the image.
pub(super) struct Layer {
    pub(super) archive: Archive,
    pub(super) comment: &'static str,
}

/// The path of a program in an image.
pub(super) fn program_path(name: &str) -> String {
    format!("/usr/local/bin/{name}")
}

/// Users, folders, and the certificates of authorities if this machine has them.
pub(super) fn users_and_certificates() -> Layer {
    let mut archive = Archive::default();
    let files = [("etc/passwd", PASSWD), ("etc/group", GROUP), ("etc/nsswitch.conf", NSSWITCH)];
    for (path, text) in files {
        archive.add_file_and_folders(path, 0o644, Content::Bytes(text.into()));
    }
    archive.add_folder("tmp", 0o1777);
    if let Some(path) = find_ca_certificates() {
        archive.add_file_and_folders(CA_FILE, 0o644, Content::CopyOf(path.to_owned()));
    }
    Layer { archive, comment: "users and CA certificates" }
}

/// The dynamic loader and the libraries of a program, if it needs any.
pub(super) fn libraries(program: &Program) -> Result<Option<Layer>> {
    let Some(loader) = &program.interpreter else { return Ok(None) };
    let libraries = find_libraries(&program.path, loader).context(
        "cannot find the libraries of the program (a static program, with --libc musl, has none)",
    )?;
    let mut archive = Archive::default();
    for file in libraries {
        // The loader is executed by the kernel.
        archive.add_file_and_folders(&file.target, 0o755, Content::CopyOf(file.source));
    }
    Ok(Some(Layer { archive, comment: "the C library" }))
}

/// The program. Over a base, the folders above it are left as they are there.
pub(super) fn program(program: &Program, name: &str, has_base: bool) -> Layer {
    let (path, content) = (program_path(name), Content::CopyOf(program.path.clone()));
    let mut archive = Archive::default();
    if has_base {
        archive.add_file(&path, 0o755, content);
    } else {
        archive.add_file_and_folders(&path, 0o755, content);
    }
    Layer { archive, comment: "the operator" }
}
