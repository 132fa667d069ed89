//! `sampan image build`: what it writes, and what it refuses.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::command_line::Sampan;
use crate::programs::{BUILD, SmallDisk, are_installed, is_root, project_with_program, run};
use machinery::{Value, json};

/// The digest in the first line that a build has printed.
fn digest(printed: &str) -> &str {
    printed.lines().next().unwrap().split_once('@').unwrap().1
}

fn json_at(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The blob of a descriptor.
fn blob(layout: &Path, descriptor: &Value) -> PathBuf {
    let digest = descriptor["digest"].as_str().unwrap();
    layout.join("blobs/sha256").join(digest.strip_prefix("sha256:").unwrap())
}

/// The paths in a compressed layer.
fn paths(layer: &Path) -> Vec<String> {
    let decoder = flate2::read::GzDecoder::new(fs::File::open(layer).unwrap());
    let mut archive = tar::Archive::new(decoder);
    let entries = archive.entries().unwrap();
    entries.map(|entry| entry.unwrap().path().unwrap().display().to_string()).collect()
}

/// The files of the image that was built, in a folder.
pub(crate) fn unpack(project: &Sampan) -> TempDir {
    let layout = project.root().join("target/sampan/image");
    let index = json_at(&layout.join("index.json"));
    let manifest = json_at(&blob(&layout, &index["manifests"][0]));
    let root = tempfile::tempdir().unwrap();
    for layer in manifest["layers"].as_array().unwrap() {
        let file = fs::File::open(blob(&layout, layer)).unwrap();
        tar::Archive::new(flate2::read::GzDecoder::new(file)).unpack(root.path()).unwrap();
    }
    root
}

#[test]
fn the_same_program_has_the_same_digest_whenever_it_is_built() {
    let project = project_with_program();
    let first = project.run(BUILD).unwrap();
    assert!(first.starts_with("operator-demo:0.1.0@sha256:"), "{first}");
    let program = fs::read(project.root().join("operator")).unwrap();
    fs::remove_file(project.root().join("operator")).unwrap();
    fs::write(project.root().join("operator"), &program).unwrap();
    assert_eq!(project.run(BUILD).unwrap(), first);
    let other = project_with_program();
    assert_eq!(other.run(BUILD).unwrap(), first);
    // The name of an image is not part of it.
    let named = other.run(&format!("{BUILD} -t registry.example.com/a/b:v1")).unwrap();
    assert_eq!(digest(&named), digest(&first));
    fs::write(other.root().join("operator"), [&program[..], b"x"].concat()).unwrap();
    assert_ne!(digest(&other.run(BUILD).unwrap()), digest(&first));
}

#[test]
fn the_configuration_names_the_program_the_user_and_the_project() {
    let project = project_with_program();
    project.replace("Cargo.toml", "[package]\n", "[package]\ndescription = \"a demo\"\n");
    project
        .run(&format!("{BUILD} --label a=b=c --label org.opencontainers.image.title=x"))
        .unwrap();
    let layout = project.root().join("target/sampan/image");
    let index = json_at(&layout.join("index.json"));
    let manifest = json_at(&blob(&layout, &index["manifests"][0]));
    let config = json_at(&blob(&layout, &manifest["config"]));
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(config["config"]["Entrypoint"], json!(["/usr/local/bin/operator-demo"]));
    assert_eq!(config["created"], "1970-01-01T00:00:00Z");
    let labels = json!({
        "a": "b=c", "org.opencontainers.image.title": "x",
        "org.opencontainers.image.version": "0.1.0",
        "org.opencontainers.image.description": "a demo",
    });
    assert_eq!(config["config"]["Labels"], labels);
    let layers = manifest["layers"].as_array().unwrap();
    let users = paths(&blob(&layout, &layers[0]));
    assert!(users.contains(&"etc/passwd".to_owned()), "{users:?}");
    let program = paths(&blob(&layout, layers.last().unwrap()));
    assert_eq!(program, ["usr/", "usr/local/", "usr/local/bin/", "usr/local/bin/operator-demo"]);
}

#[test]
fn skopeo_reads_the_folder_and_the_archive() {
    if !are_installed(&["skopeo"]) {
        return;
    }
    let project = project_with_program();
    let root = project.root().display().to_string();
    let name = "-t registry.example.com/team/demo:v1";
    let built = project.run(&format!("{BUILD} {name} --output DIR/image.tar")).unwrap();
    assert_eq!(project.run(&format!("{BUILD} {name} --output DIR/layout")).unwrap(), built);
    for source in [format!("oci-archive:{root}/image.tar:v1"), format!("oci:{root}/layout:v1")] {
        let inspected: Value = serde_json::from_str(&run("skopeo", &["inspect", &source])).unwrap();
        assert_eq!(inspected["Digest"], digest(&built));
        assert_eq!(inspected["Os"], "linux");
        let copy = format!("dir:{root}/copy");
        run("skopeo", &["copy", "--insecure-policy", &source, &copy]);
    }
    // An earlier layout is replaced.
    project.run(&format!("{BUILD} --output DIR/layout")).unwrap();
    run("skopeo", &["inspect", &format!("oci:{root}/layout:0.1.0")]);
}

#[test]
fn over_a_base_only_the_program_is_added() {
    let project = project_with_program();
    project.run(&format!("{BUILD} --output DIR/base")).unwrap();
    let base = json_at(&project.root().join("base/index.json"))["manifests"][0].clone();
    let base = json_at(&blob(&project.root().join("base"), &base))["layers"].clone();
    project.run(&format!("{BUILD} --base DIR/base")).unwrap();
    let layout = project.root().join("target/sampan/image");
    let index = json_at(&layout.join("index.json"));
    let layers = json_at(&blob(&layout, &index["manifests"][0]))["layers"].clone();
    let (base, layers) = (base.as_array().unwrap(), layers.as_array().unwrap());
    assert_eq!(layers[..base.len()], base[..]);
    // A folder of the layer would replace a link of the base.
    let added = paths(&blob(&layout, &layers[base.len()]));
    assert_eq!(added, ["usr/local/bin/operator-demo"]);

    let other = if cfg!(target_arch = "aarch64") { "amd64" } else { "arm64" };
    fs::write(project.root().join("other"), {
        let mut program = fs::read(project.root().join("operator")).unwrap();
        program[18] = if other == "arm64" { 183 } else { 62 };
        program
    })
    .unwrap();
    let build = format!("image build --project DIR --program DIR/other --platform linux/{other}");
    assert!(project.run(&build).is_ok());
    let error = project.run(&format!("{build} --base DIR/base")).unwrap_err();
    assert!(error.contains(&format!("is not for linux/{other}")), "{error}");
    let blobs = project.root().join("base/blobs/sha256");
    for file in fs::read_dir(blobs).unwrap() {
        fs::write(file.unwrap().path(), "damaged").unwrap();
    }
    let error = project.run(&format!("{BUILD} --base DIR/base")).unwrap_err();
    assert!(error.contains("is damaged"), "{error}");
}

#[test]
fn what_cannot_be_an_image_is_refused_before_anything_is_written() {
    let project = project_with_program();
    fs::create_dir(project.root().join("mine")).unwrap();
    fs::write(project.root().join("mine/file"), "").unwrap();
    let foreign = if cfg!(target_arch = "aarch64") { "linux/amd64" } else { "linux/arm64" };
    let foreign = format!("--program DIR/operator --platform {foreign}");
    for (arguments, expected) in [
        ("--program DIR/none", "cannot read the program DIR/none"),
        ("--program DIR/Cargo.toml", "not a program for Linux"),
        (foreign.as_str(), "choose another --platform"),
        ("--program DIR/operator --platform linux/riscv64", "linux/amd64 and linux/arm64"),
        ("--program DIR/operator -t Demo", "lower case"),
        ("--program DIR/operator --label a", "NAME=VALUE"),
        ("--program DIR/operator --base DIR/mine", "skopeo copy"),
        ("--program DIR/operator --output DIR/mine", "choose another folder"),
        ("--program DIR/operator --output DIR/operator", "choose another folder"),
    ] {
        let error = project.run(&format!("image build --project DIR {arguments}")).unwrap_err();
        assert!(error.contains(expected), "{arguments}: {error}");
        let files: Vec<String> = walk(&project.root());
        assert!(!files.iter().any(|path| path.contains("blobs")), "{arguments}: {files:?}");
    }
}

/// The paths of all files below a folder.
fn walk(root: &Path) -> Vec<String> {
    let (mut found, mut folders) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            found.push(path.display().to_string());
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    found
}

#[test]
fn a_full_or_read_only_disk_is_an_error_and_nothing_is_half_written() {
    if !is_root() {
        return;
    }
    let project = project_with_program();
    let mut large = fs::read(project.root().join("operator")).unwrap();
    let mut content = vec![0; 400_000];
    keel::Entropy::seeded(1).fill(&mut content); // it cannot be compressed
    large.extend(content);
    fs::write(project.root().join("operator"), large).unwrap();
    let disk = SmallDisk::mount(&project.root().join("disk"), "size=64k");
    for output in ["disk/image.tar", "disk/layout"] {
        let error = project.run(&format!("{BUILD} --output DIR/{output}")).unwrap_err();
        assert!(error.contains("cannot write DIR/disk") && error.contains("No space"), "{error}");
        assert_eq!(disk.files(), [""; 0], "{output}");
    }
    let shown = project.root().join("disk").display().to_string();
    run("mount", &["-o", "remount,ro", &shown]);
    for output in ["disk/image.tar", "disk/layout"] {
        let error = project.run(&format!("{BUILD} --output DIR/{output}")).unwrap_err();
        assert!(error.contains("DIR/disk") && error.contains("Read-only"), "{error}");
    }

    let folder = project.root().join("target/sampan");
    let disk = SmallDisk::mount(&folder, "size=64k");
    let error = project.run(BUILD).unwrap_err();
    assert!(error.contains("cannot write") && error.contains("No space"), "{error}");
    assert_eq!(disk.files(), [""; 0]);
}

#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn a_dynamic_program_runs_with_the_files_of_its_image_alone() {
    if !is_root() {
        return;
    }
    let project = Sampan::project(&[]);
    fs::copy("/bin/true", project.root().join("operator")).unwrap();
    project.run(BUILD).unwrap();
    let root = unpack(&project);
    run("chroot", &[root.path().to_str().unwrap(), "/usr/local/bin/operator-demo"]);
}
