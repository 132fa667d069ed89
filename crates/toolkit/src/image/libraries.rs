//! The files of this machine that a program needs: shared libraries and CA certificates.
//!
//! The loader of the program itself lists the libraries (`ld.so --list`, as `ldd` does), since only it
//! knows its search path. All are copied to the folder of the C library, which is always searched, so
//! that an image needs neither `ld.so.cache` nor a variable.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The C library in the output of a loader.
const C_LIBRARY: &str = "libc.so.6";
/// Libraries that glibc before 2.34 loads for the names of hosts, without being linked to them.
const NAME_RESOLUTION: [&str; 3] = ["libnss_dns.so.2", "libnss_files.so.2", "libresolv.so.2"];
/// Where distributions have the certificates of authorities, in one file.
const CA_CERTIFICATES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// A file of this machine, and its path in the image.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Copied {
    pub(crate) source: PathBuf,
    pub(crate) target: String,
}

/// The certificates of authorities that this machine trusts, if it has them.
pub(crate) fn find_ca_certificates() -> Option<&'static Path> {
    CA_CERTIFICATES.iter().map(Path::new).find(|path| path.is_file())
}

/// The loader of a program, and the libraries that it loads.
pub(crate) fn find_libraries(program: &Path, loader: &str) -> Result<Vec<Copied>> {
    if !Path::new(loader).is_file() {
        bail!(
            "the program needs the loader {loader}, which this machine does not have: build a static \
             program with --libc musl"
        );
    }
    let mut command = Command::new(loader);
    command.arg("--list").arg(program).env_remove("LD_PRELOAD").stdin(Stdio::null());
    let listed = command.output().with_context(|| format!("cannot run the loader {loader}"))?;
    let text = String::from_utf8_lossy(&listed.stdout);
    if !listed.status.success() {
        let message = String::from_utf8_lossy(&listed.stderr);
        bail!("{loader} cannot load the program: {}", message.trim());
    }
    let mut copied = copies(&text, loader)?;
    let libc = copied.iter().find(|file| file.target.ends_with(C_LIBRARY));
    let paths = libc.map(|file| (file.source.clone(), file.target.clone()));
    if let Some((source, target)) = paths {
        for name in NAME_RESOLUTION {
            let source = source.with_file_name(name);
            let target = target.replace(C_LIBRARY, name);
            if source.is_file() && !copied.iter().any(|file| file.target == target) {
                copied.push(Copied { source, target });
            }
        }
    }
    Ok(copied)
}

/// Reads the output of a loader: the loader itself, and a library for each line with an arrow.
fn copies(text: &str, loader: &str) -> Result<Vec<Copied>> {
    let mut libraries = Vec::new();
    for line in text.lines() {
        let Some((name, path)) = line.trim().split_once(" => ") else { continue };
        if path.starts_with("not found") {
            bail!("the program needs the library {name}, which this machine does not have");
        }
        let path = path.rsplit_once(" (").map_or(path, |(path, _)| path);
        let name = name.rsplit('/').next().unwrap_or(name);
        if path != loader && !loader.ends_with(&format!("/{name}")) {
            libraries.push((name, path));
        }
    }
    // musl's loader is also the C library.
    let libc = libraries.iter().find(|(name, _)| *name == C_LIBRARY);
    let libc = libc.map_or(loader, |(_, path)| path);
    let folder = libc.rsplit_once('/').map_or("", |(folder, _)| folder);
    let target = |name: &str| format!("{folder}/{name}");
    let mut copied = vec![Copied { source: loader.into(), target: loader.to_owned() }];
    copied.extend(
        libraries.iter().map(|(name, path)| Copied { source: path.into(), target: target(name) }),
    );
    Ok(copied)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = "\tlinux-vdso.so.1 (0x00007ffd)
\tlibdemo.so.1 => /opt/demo/libdemo.so.1 (0x00007f01)
\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f00)
\t/lib64/ld-linux-x86-64.so.2 (0x00007f02)
";

    #[test]
    fn libraries_are_copied_to_the_folder_of_the_c_library() {
        let copied = copies(LISTED, "/lib64/ld-linux-x86-64.so.2").unwrap();
        let paths = |file: &Copied| (file.source.display().to_string(), file.target.clone());
        let paths: Vec<_> = copied.iter().map(paths).collect();
        let expected = [
            ("/lib64/ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2"),
            ("/opt/demo/libdemo.so.1", "/lib/x86_64-linux-gnu/libdemo.so.1"),
            ("/lib/x86_64-linux-gnu/libc.so.6", "/lib/x86_64-linux-gnu/libc.so.6"),
        ];
        assert_eq!(paths, expected.map(|(source, target)| (source.to_owned(), target.to_owned())));
    }

    #[test]
    fn the_loader_of_musl_is_the_c_library() {
        let loader = "/lib/ld-musl-x86_64.so.1";
        let text = format!(
            "\t{loader} (0x7f00)\n\tlibgcc_s.so.1 => /usr/lib/libgcc_s.so.1 (0x7f01)\n\
             \tlibc.musl-x86_64.so.1 => {loader} (0x7f00)\n"
        );
        let copied = copies(&text, loader).unwrap();
        let targets: Vec<_> = copied.iter().map(|file| file.target.as_str()).collect();
        assert_eq!(targets, [loader, "/lib/libgcc_s.so.1"]);
    }

    #[test]
    fn a_missing_library_is_named() {
        let error = copies("\tlibdemo.so.1 => not found\n", "/lib/ld.so").unwrap_err().to_string();
        assert!(error.contains("needs the library libdemo.so.1"), "{error}");
    }
}
