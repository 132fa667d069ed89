//! What the commands refuse, without changing anything, and what their messages say.

use std::fs;

use crate::command_line::{CUSTOM_POD, INIT, Sampan};

#[test]
fn init_overwrites_no_file() {
    let sampan = Sampan::project(&[]);
    let error = sampan.refused(INIT);
    assert!(error.contains("--force .gitignore,Cargo.toml,README.md,"), "{error}");

    let sampan = Sampan::new();
    fs::create_dir_all(sampan.root().join("src")).unwrap();
    fs::write(sampan.root().join("README.md"), "mine").unwrap();
    assert!(sampan.refused(INIT).starts_with("README.md would be overwritten"));
    sampan.run(&format!("{INIT} --force README.md")).unwrap();
    assert!(sampan.read("README.md").starts_with("# operator-demo"));
}

#[test]
fn init_refuses_names_and_proposes_others() {
    let sampan = Sampan::new();
    for (command, expected) in [
        ("init DIR --domain Mock.com", "--domain \"Mock.com\": 'M' is not allowed"),
        ("init DIR --domain mock.com --name Demo", "use --name demo"),
        ("init DIR --domain mock.com --repo a/test", "use --name test-operator"),
        ("init DIR --domain k8s.io", "use a domain of your own"),
        ("init DIR", "--domain"),
        ("init DIR --domain a.com --sampan-git x", "--sampan-rev"),
        ("init DIR --domain a.com --sampan-path /", "no checkout of Sampan"),
    ] {
        let error = sampan.refused(command);
        assert!(error.contains(expected), "{command}: {error}");
    }
}

#[test]
fn create_api_refuses_what_clashes() {
    let sampan = Sampan::project(&[CUSTOM_POD]);
    let create = "create api --project DIR";
    for (arguments, expected) in [
        ("--group zhhnzw --version v1 --kind CustomPod", "--version v1: the project has CustomPod"),
        (
            "--group other --version v1 --kind CustomPod",
            "--kind CustomPod: the module `custom_pod`",
        ),
        ("--group zhhnzw --version v1 --kind Pod --plural custompods", "add another --plural"),
        ("--group zhhnzw --version v2 --kind CustomPod --plural x", "leave the flag out"),
        ("--group zhhnzw --version v1 --kind Custompod --plural x", "same name in lower case"),
        ("--group zhhnzw --version v1 --kind OperatorDemo", "the name of the crate"),
        ("--group zhhnzw --version v1 --kind Impl", "use --kind CustomImpl"),
        ("--group zhhnzw --version 1 --kind A", "--version \"1\""),
        ("--group zh_w --version v1 --kind A", "--group \"zh_w.mock.com\""),
        ("--group apps --version v1 --kind Deployment --resource=false", "built-in"),
        ("--group a --version v1 --kind A --force src/lib.rs", "does not write that file"),
    ] {
        let error = sampan.refused(&format!("{create} {arguments}"));
        assert!(error.contains(expected), "{arguments}: {error}");
    }
}

#[test]
fn create_api_overwrites_no_file() {
    let sampan = Sampan::project(&[]);
    fs::write(sampan.root().join("src/custom_pod.rs"), "mine").unwrap();
    let error = sampan.refused(CUSTOM_POD);
    assert!(error.contains("src/custom_pod.rs would be overwritten"), "{error}");
    sampan.run(&format!("{CUSTOM_POD} --force src/custom_pod.rs")).unwrap();
    assert!(sampan.read("src/custom_pod.rs").contains("CustomPodSpec"));
}

#[test]
fn without_the_comments_the_lines_are_shown() {
    let sampan = Sampan::project(&[]);
    sampan.replace("src/lib.rs", "// sampan:controllers", "// mine");
    let error = sampan.refused(CUSTOM_POD);
    assert!(error.contains("// sampan:controllers"), "{error}");
    assert!(error.contains("custom_pod::controller::controller,"), "{error}");
}

#[test]
fn what_the_user_wrote_stays() {
    let sampan = Sampan::project(&[CUSTOM_POD]);
    sampan.replace("src/custom_pod.rs", "/// The expected state.", "/// Mine.");
    sampan.replace("src/lib.rs", "/// The webhooks.", "fn mine() {}\n\n/// The webhooks.");
    sampan.replace("Cargo.toml", "anyhow = \"1\"", "anyhow = \"1\" # mine");
    let api = "create api --project DIR --group zhhnzw --version v2 --kind CustomPod";
    sampan.run(api).unwrap();
    assert!(sampan.read("src/custom_pod.rs").contains("pub mod v2;"));
    assert!(sampan.read("src/custom_pod.rs").contains("/// Mine."));
    assert!(sampan.read("src/lib.rs").contains("fn mine() {}"));
    assert!(sampan.read("Cargo.toml").contains("anyhow = \"1\" # mine"));
}

#[test]
fn webhooks_and_controllers_need_a_kind_and_exist_once() {
    let sampan = Sampan::project(&[CUSTOM_POD]);
    let webhook = "create webhook --project DIR --group zhhnzw --version v1 --kind";
    let error = sampan.refused(&format!("{webhook} Vpc --defaulting"));
    assert!(error.contains("it has CustomPod of zhhnzw.mock.com/v1"), "{error}");
    let error = sampan.refused(&format!("{webhook} CustomPod"));
    assert!(error.contains("which webhook?"), "{error}");
    sampan.run(&format!("{webhook} CustomPod --defaulting")).unwrap();
    let error = sampan.refused(&format!("{webhook} CustomPod --defaulting"));
    assert!(error.contains("--force src/custom_pod/defaulting.rs"), "{error}");

    let controller = "add controller --project DIR --kind=CustomPod";
    let error = sampan.refused(&format!("{controller} --api-version=zhhnzw.mock.com/v1"));
    assert!(error.contains("has a controller"), "{error}");
    let error = sampan.refused(&format!("{controller} --api-version=v1"));
    assert!(error.contains("such as mock.com/v1"), "{error}");
}

#[test]
fn commands_outside_of_a_project_say_how_to_make_one() {
    let sampan = Sampan::new();
    fs::create_dir(sampan.root()).unwrap();
    assert!(sampan.refused(CUSTOM_POD).contains("sampan init"));
    fs::write(sampan.root().join("Cargo.toml"), "[package]\nname = \"a\"\n").unwrap();
    assert!(sampan.refused(CUSTOM_POD).contains("no [package.metadata.sampan]"));
    fs::write(sampan.root().join("Cargo.toml"), "[package\n").unwrap();
    assert!(sampan.refused(CUSTOM_POD).contains("Cargo.toml is not valid"));
    let settings =
        "[package]\nname = \"a\"\n[package.metadata.sampan]\ndomain = \"a.com\"\nkinds = [1]\n";
    fs::write(sampan.root().join("Cargo.toml"), settings).unwrap();
    assert!(sampan.refused(CUSTOM_POD).contains("is not like"));
}

#[test]
fn manifests_of_several_files_need_a_folder() {
    let sampan = Sampan::project(&[]);
    let error = sampan.refused("manifests --project DIR --format helm");
    assert!(error.contains("name a folder"), "{error}");
}
