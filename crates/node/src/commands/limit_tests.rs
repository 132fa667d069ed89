//! Tests of the limits that protect the process against scripts that want to use it up.

use serde_json::json;

use super::*;

/// A level of nesting: what stands before the inner commands, and what stands after them.
const NESTINGS: [(&str, &str); 6] = [
    ("! ", ""),
    ("if ", "; then true; fi"),
    ("if true; then ", "; fi"),
    ("while ", "; do true; done"),
    ("( ", " )"),
    ("expr 0 + $(", ")"),
];

fn nested(levels: usize, (before, after): (&str, &str)) -> String {
    before.repeat(levels) + "true" + &after.repeat(levels)
}

/// What becomes of a script in a container with the variable `A`, after `restarts`.
fn follow(script: &str, a: &str, restarts: u32) -> Option<Process> {
    follow_command(&["sh", "-c", script], a, restarts)
}

fn follow_command(command: &[&str], a: &str, restarts: u32) -> Option<Process> {
    let pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"},
        "spec": {"volumes": [{"name": "data", "emptyDir": {}}]}});
    let container = json!({
        "name": "c", "command": command, "env": [{"name": "A", "value": a}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    });
    let pod: PodView = serde_json::from_value(pod).unwrap();
    let container: Container = serde_json::from_value(container).unwrap();
    process(&pod, &container, restarts, &NodeFiles::default())
}

#[test]
fn a_script_that_is_nested_too_deeply_is_not_understood() {
    for nesting in NESTINGS {
        for levels in [51, 500, 100_000] {
            assert_eq!(follow(&nested(levels, nesting), "", 0), None, "{levels} of {nesting:?}");
        }
    }
    // The depth of a script counts together with that of the scripts in it.
    for inner in [nested(40, ("if ", "; then true; fi")), nested(40, ("! ", ""))] {
        assert!(follow(&inner, "", 0).is_some());
        let script = format!("{} sh -c '{inner}'", "! ".repeat(40));
        assert_eq!(follow(&script, "", 0), None);
    }
}

#[test]
fn a_parser_without_a_limit_of_length_still_has_one_of_depth() {
    for nesting in NESTINGS {
        let mut budget = Budget::unlimited();
        let script = nested(100_000, nesting);
        let expect = nesting.0.contains("$(");
        assert_eq!(shell::parses(&script, &mut budget), expect, "{nesting:?}");
    }
}

#[test]
fn ordinary_nesting_is_followed() {
    for nesting in &NESTINGS[..3] {
        assert!(follow(&nested(12, *nesting), "", 0).is_some(), "{nesting:?}");
    }
    let sum = follow("exit $(expr 1 + $(expr 1 + 1))", "", 0).map(|it| it.exit_code);
    assert_eq!(sum, Some(3));
}

#[test]
fn a_script_that_is_too_long_is_not_understood() {
    let script = |length: usize| format!("true #{}", "x".repeat(length - 6));
    assert_eq!(follow(&script(16 * 1024), "", 0), Some(Process::SUCCESS));
    assert_eq!(follow(&script(16 * 1024 + 1), "", 0), None);
}

#[test]
fn a_script_that_expands_too_many_bytes_is_not_understood() {
    let a = "a".repeat(5_000);
    assert_eq!(follow(&format!("echo {}", "$A".repeat(13)), &a, 0), Some(Process::SUCCESS));
    assert_eq!(follow(&format!("echo {}", "$A".repeat(14)), &a, 0), None);
    assert_eq!(follow(&"echo $A;".repeat(14), &a, 0), None);
    assert_eq!(follow("true $A", &"a".repeat(1_000_000), 0), None);
}

#[test]
fn a_script_that_needs_too_many_steps_is_not_understood() {
    // Words that are empty, and commands without words, count in each round.
    let rounds = |count: u32, body: &str| {
        let next = |i| format!("elif [ ! -e /data/{i} ]; then touch /data/{i};\n");
        let arms: String = (0..count).map(next).collect();
        follow(&format!("while true; do if false; then true;\n{arms}fi; {body}; done"), "", 0)
    };
    for body in ["true ".to_owned() + &"$A ".repeat(3_000), "$A;".repeat(3_000)] {
        assert_eq!(rounds(2, &body), Some(Process::ENDLESS));
        assert_eq!(rounds(60, &body), None);
    }
    assert_eq!(rounds(60, "true"), Some(Process::ENDLESS));
    let words = vec!["true"; 400_000];
    assert_eq!(follow_command(&words, "", 0), None);
}

#[test]
fn all_runs_of_a_container_have_one_budget() {
    // Each run makes one file more than the run before it.
    let next = |i: u32| format!("elif [ ! -e /data/{i} ]; then touch /data/{i}; exit {i};\n");
    let script = |padding: &str| {
        let arms: String = (1..30).map(next).collect();
        format!("if false; then true;\n{arms}fi; {padding}")
    };
    let exit_code =
        |padding: &str, restarts| follow(&script(padding), "", restarts).map(|it| it.exit_code);
    assert_eq!([0, 9, 28, 29, 1_000].map(|it| exit_code("", it)), [1, 10, 29, 0, 0].map(Some));
    let padding = "true;".repeat(2_000);
    assert_eq!([0, 9, 28].map(|it| exit_code(&padding, it)), [Some(1), Some(10), None]);
}

#[test]
fn the_containers_of_a_pod_share_its_steps() {
    let script = "true; ".repeat(1_000);
    let container = json!({"name": "c", "command": ["sh", "-c", script]});
    let with = |count: usize| {
        let pod = json!({"spec": {"containers": vec![json!({}); count]}});
        let pod: PodView = serde_json::from_value(pod).unwrap();
        let container: Container = serde_json::from_value(container.clone()).unwrap();
        process(&pod, &container, 0, &NodeFiles::default())
    };
    assert_eq!([1, 10].map(with), [Some(Process::SUCCESS); 2]);
    assert_eq!(with(100), None);
}

#[test]
fn a_loop_is_endless_when_a_round_changes_nothing() {
    let message = "a message of a program that tells much about what it does ".repeat(20);
    let script = format!("while true; do echo '{message}'; sleep 10; done");
    assert_eq!(follow(&script, "", 0), Some(Process::ENDLESS));
    let script = "while [ ! -e /data/c ]; do if [ -e /data/b ]; then touch /data/c; fi; \
        if [ -e /data/a ]; then touch /data/b; fi; touch /data/a; sleep 1; done; exit 4";
    let expect = Process { run_for: Some(Duration::from_secs(3)), exit_code: 4 };
    assert_eq!(follow(script, "", 0), Some(expect));
}

/// Touches these files on a disk of a node, as a pod of a namespace. Returns whether `/data/mark` was
/// there before.
fn touch(files: &NodeFiles, namespace: &str, uid: &str, host_path: &str, paths: &str) -> bool {
    let pod = json!({
        "metadata": {"namespace": namespace, "uid": uid},
        "spec": {"nodeName": "n", "volumes": [{"name": "v", "hostPath": {"path": host_path, "type": "DirectoryOrCreate"}}]},
    });
    let container = json!({
        "command": ["sh", "-c", format!("[ -e /data/mark ] && exit 3; touch {paths}")],
        "volumeMounts": [{"name": "v", "mountPath": "/data"}],
    });
    let pod: PodView = serde_json::from_value(pod).unwrap();
    let container: Container = serde_json::from_value(container).unwrap();
    let made = super::files(&pod, &container, 0, files);
    let made: Vec<&str> = made.keys().map(String::as_str).collect();
    let exit_code = process(&pod, &container, 0, files).unwrap().exit_code;
    files.add(&pod, &container, &pod.container_id("", 0), &made);
    exit_code == 3
}

#[test]
fn a_namespace_cannot_make_the_files_of_another_one_be_forgotten() {
    let files = NodeFiles::default();
    assert!(!touch(&files, "victim", "v-1", "/victim", "/data/mark"));
    assert!(!touch(&files, "attacker", "a-1", "/attacker", "/data/mark"));
    for pod in 0..30 {
        let path = |i| format!("/data/{pod}-{i} ");
        let paths: String = (0..500).map(path).collect();
        touch(&files, "attacker", &format!("b-{pod}"), &format!("/pod-{pod}"), &paths);
    }
    assert!(touch(&files, "victim", "v-2", "/victim", "/data/mark"));
    assert!(!touch(&files, "attacker", "a-2", "/attacker", "/data/mark"), "it is the oldest");
}

#[test]
fn a_path_that_is_too_long_is_not_kept() {
    let files = NodeFiles::default();
    let host_path = "/x".repeat(2_046);
    assert!(!touch(&files, "n", "1", &host_path, "/data/mark"), "4,092 + 5 bytes");
    assert!(!touch(&files, "n", "2", &host_path, "/data/mark"));
    let host_path = "/x".repeat(2_045);
    assert!(!touch(&files, "n", "1", &host_path, "/data/mark"), "4,090 + 5 bytes");
    assert!(touch(&files, "n", "2", &host_path, "/data/mark"));
    assert_eq!(follow(&format!("touch /data/{}", "x".repeat(4_096)), "", 0), None);
    assert_eq!(follow(&format!("true > /data/{}", "x".repeat(4_096)), "", 0), None);
}
