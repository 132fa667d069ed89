//! Tests of what commands are understood as.

use super::*;

/// `10s exit 3`, `endless` or `unknown`, for the process of a container after `restarts`.
fn outcome(container: &str, restarts: u32) -> String {
    let pod = r#"{"metadata":{"name":"p","namespace":"n","annotations":{"index":"3"}},
        "spec":{"volumes":[{"name":"data","emptyDir":{}},{"name":"token","secret":{}},
        {"name":"read","emptyDir":{}},{"name":"part","emptyDir":{}},
        {"name":"host","hostPath":{"path":"/etc"}},{"name":"shared","emptyDir":{}}],
        "initContainers":[{"name":"i","volumeMounts":[{"name":"shared","mountPath":"/x"}]}],
        "containers":[{"name":"c","volumeMounts":[{"name":"shared","mountPath":"/shared"}]}]}}"#;
    let pod: PodView = serde_json::from_str(pod).unwrap();
    let container: Container = serde_json::from_str(container).unwrap();
    text(process(&pod, &container, restarts, &NodeFiles::default()))
}

fn text(process: Option<Process>) -> String {
    match process {
        None => "unknown".to_owned(),
        Some(Process { run_for: None, .. }) => "endless".to_owned(),
        Some(Process { run_for: Some(time), exit_code }) => format!("{time:?} exit {exit_code}"),
    }
}

fn check(command: &[&str], expect: &str) {
    let container = serde_json::json!({"name": "c", "image": "busybox", "command": command});
    assert_eq!(outcome(&container.to_string(), 0), expect, "{command:?}");
}

fn check_script(script: &str, expect: &str) {
    let env = r#"[{"name":"WORD","value":"a b"},
        {"name":"INDEX","valueFrom":{"fieldRef":{"fieldPath":"metadata.annotations['index']"}}},
        {"name":"SECRET","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]"#;
    let env: serde_json::Value = serde_json::from_str(env).unwrap();
    let mounts = serde_json::json!([{"name": "data", "mountPath": "/data"},
        {"name": "token", "mountPath": "/token"}, {"name": "read", "mountPath": "/read", "readOnly": true},
        {"name": "part", "mountPath": "/part", "subPath": "a"}, {"name": "host", "mountPath": "/host"}]);
    let container = serde_json::json!({"command": ["/bin/sh", "-c"], "args": [script], "env": env,
        "volumeMounts": mounts});
    assert_eq!(outcome(&container.to_string(), 0), expect, "{script}");
}

#[test]
fn a_process_sleeps_as_long_as_its_command_says() {
    check(&["sleep", "10"], "10s exit 0");
    check(&["/usr/bin/sleep", "0.5"], "500ms exit 0");
    check(&["sleep", "1m", "30s"], "90s exit 0");
    check(&["sleep", "1d"], "86400s exit 0");
    check(&["sleep", "infinity"], "endless");
    check(&["sleep", "soon"], "unknown");
    check(&["sleep"], "unknown");
}

#[test]
fn a_process_succeeds_or_fails_as_its_command_says() {
    check(&["true"], "0ns exit 0");
    check(&["/bin/false"], "0ns exit 1");
    check(&["echo", "hello"], "0ns exit 0");
    check(&["sh", "-c", "exit 42"], "0ns exit 42");
    check(&["bash", "-c", "exit 257"], "0ns exit 1");
    check(&["/opt/tools/true"], "unknown");
    check(&["exit", "1"], "unknown");
    check(&["sleep", "1e3"], "unknown");
    check(&["sh"], "unknown");
    check(&["my-program"], "unknown");
}

#[test]
fn the_arguments_of_an_image_without_command_are_a_command() {
    assert_eq!(outcome(r#"{"image":"busybox","args":["sleep","5"]}"#, 0), "5s exit 0");
    assert_eq!(outcome(r#"{"image":"busybox","args":["--verbose"]}"#, 0), "unknown");
}

#[test]
fn the_images_of_servers_run_until_they_are_stopped() {
    for image in ["pause", "registry.k8s.io/pause:3.10", "nginx@sha256:00", "r:5000/a/redis:8"] {
        assert_eq!(outcome(&format!(r#"{{"image":"{image}"}}"#), 0), "endless", "{image}");
    }
    assert_eq!(outcome(r#"{"image":"nginx","args":["-v"]}"#, 0), "endless");
    assert_eq!(outcome(r#"{"image":"nginx","command":["sleep","5"]}"#, 0), "5s exit 0");
    assert_eq!(outcome(r#"{"image":"nginx","command":["migrate"]}"#, 0), "unknown");
    assert_eq!(outcome(r#"{"image":"nginx-tools"}"#, 0), "unknown");
}

#[test]
fn scripts_are_followed_through_lists() {
    check_script("sleep 1; sleep 2", "3s exit 0");
    check_script("sleep 1 && exit 3; sleep 9", "1s exit 3");
    check_script("false && sleep 9 || sleep 2", "2s exit 0");
    check_script("true || exit 1", "0ns exit 0");
    check_script("false; exit", "0ns exit 1");
    check_script("! false", "0ns exit 0");
    check_script("# a comment\nsleep 1 # another\n\nexec sleep 4\nexit 9", "5s exit 0");
    check_script("echo hi > /dev/null 2>&1; sh -c 'exit 4'", "0ns exit 4");
    check_script("", "0ns exit 0");
}

#[test]
fn scripts_are_followed_through_conditions_and_loops() {
    check_script("if true; then exit 1; else exit 2; fi", "0ns exit 1");
    check_script("if false; then exit 1; elif true; then exit 5; fi", "0ns exit 5");
    check_script("if [ \"$WORD\" = 'a b' ]; then exit 4; fi", "0ns exit 4");
    check_script(
        "if [ $(expr ${INDEX} % 2) -ne 0 ]; then\n  exit 1\nelse\n  exit 0\nfi",
        "0ns exit 1",
    );
    check_script("test -z \"\" && [ 2 -lt 10 ] && [[ ! -e /data/none ]]", "0ns exit 0");
    check_script("while true; do echo tick; sleep 10; done", "endless");
    check_script("while [ ! -f /data/x ]; do sleep 5; touch /data/x; done; exit 3", "5s exit 3");
    check_script("while [ ! -f /data/x ]; do touch /data/x; false; done", "0ns exit 1");
    check_script("exit $((INDEX))", "0ns exit 3");
    check_script("exit $(( $INDEX % 2 ))", "0ns exit 1");
}

#[test]
fn a_script_with_anything_else_is_not_understood() {
    for script in [
        "make && exit 0",
        "exit $((1+1+1))",
        "exit $(( $RANDOM / 16384 ))",
        "[ $(echo x) = x ]",
        "[ $WORD = a ]",
        "[ $HOSTNAME = p ]",
        "[ a == a ]",
        "[[ a == [a-z] ]]",
        "[ 010 -eq 10 ]",
        "until false; do sleep 1; done",
        "{ exit 1; }",
        "printf x",
        "exit -1",
        "exit 1>/dev/null",
        "touch /data/{a,b}",
        "sleep 1 \\\n 2",
        "exit $?",
        "sleep 1 &",
        "echo a | grep b",
        "X=1; exit $X",
        "echo $UNSET",
        "echo $SECRET",
        "for i in 1 2; do sleep $i; done",
        "trap 'exit 0' TERM; sleep 5",
        "if true; then exit 1",
        "sleep 1 &&",
        "echo 'open",
        "f() { exit 1; }",
        "echo `date`",
        "sleep 1; )",
    ] {
        check_script(script, "unknown");
    }
}

#[test]
fn a_script_finds_the_files_that_an_earlier_run_has_left_on_a_volume() {
    let container = |path: &str| {
        let script = format!("if [[ -r {path} ]]\nthen\n exit 0\nelse\n touch {path}\n exit 1\nfi");
        let mounts = serde_json::json!([{"name": "data", "mountPath": "/data"}]);
        serde_json::json!({"command": ["sh", "-c", script], "volumeMounts": mounts}).to_string()
    };
    let on_volume = container("/data/mark");
    assert_eq!(
        [0, 1, 2].map(|it| outcome(&on_volume, it)),
        ["0ns exit 1", "0ns exit 0", "0ns exit 0"]
    );
    let elsewhere = container("/database");
    assert_eq!([0, 1].map(|it| outcome(&elsewhere, it)), ["unknown", "unknown"]);
}

#[test]
fn a_script_finds_the_files_that_other_pods_have_left_on_the_disk_of_their_node() {
    let pod = |uid: &str, node: &str| -> PodView {
        let path = r#"{"path":"/srv/job/","type":"DirectoryOrCreate"}"#;
        let volumes = format!(r#"[{{"name":"data","hostPath":{path}}}]"#);
        let pod = format!(
            r#"{{"metadata":{{"uid":"{uid}"}},"spec":{{"nodeName":"{node}","volumes":{volumes}}}}}"#
        );
        serde_json::from_str(&pod).unwrap()
    };
    let script = "if [ -e /data/mark ]; then exit 0; fi; sleep 5; touch /data/mark; exit 1";
    let mounts = serde_json::json!([{"name": "data", "mountPath": "/data"}]);
    let container = serde_json::json!({"command": ["sh", "-c", script], "volumeMounts": mounts});
    let container: Container = serde_json::from_value(container).unwrap();
    let node_files = NodeFiles::default();
    let run = |pod: &PodView| text(process(pod, &container, 0, &node_files));
    let a = pod("a", "n-1");
    assert_eq!(run(&a), "5s exit 1");
    assert_eq!(run(&pod("b", "n-1")), "5s exit 1", "a run that is only predicted makes no file");
    let made = files(&a, &container, 0, &node_files);
    assert_eq!(made, BTreeMap::from([("/data/mark".to_owned(), Duration::from_secs(5))]));
    node_files.add(&a, &container, &a.container_id("", 0), &["/data/mark"]);
    assert_eq!(run(&a), "5s exit 1", "the same run is asked for again");
    assert_eq!(run(&pod("b", "n-1")), "0ns exit 0");
    assert_eq!(run(&pod("b", "n-2")), "5s exit 1");
}

#[test]
fn a_script_that_calls_itself_in_depth_ends() {
    let mut script = "true".to_owned();
    for _ in 0..40 {
        script = format!("expr 1 + $({script})");
    }
    check_script(&script, "unknown");
    check_script("while true; do while true; do true; done; done", "endless");
}

#[test]
fn files_that_the_pod_has_not_made_are_not_known() {
    for path in [
        "/etc/passwd",
        "/tmp/x",
        "x",
        "/data/a/b",
        "/data/",
        "/data/..",
        "/token/x",
        "/part/x",
        "/host/passwd",
        "/data",
        "//data/x",
    ] {
        check_script(&format!("[ -f {path} ]"), "unknown");
        check_script(&format!("[ ! -e {path} ]"), "unknown");
        check_script(&format!("touch {path}"), "unknown");
        check_script(&format!("echo > {path}"), "unknown");
    }
    check_script("test -d /tmp", "unknown");
    check_script("touch /read/x", "unknown");
    check_script("[ -e /read/x ]", "0ns exit 1");
    check_script("echo > /data/x; [ -r /data/x ]", "0ns exit 0");
    // Another container may have made files on a volume that both have.
    let shared = |script: &str| {
        let mounts = serde_json::json!([{"name": "shared", "mountPath": "/shared"}]);
        let command = ["sh", "-c", script];
        outcome(&serde_json::json!({"command": command, "volumeMounts": mounts}).to_string(), 0)
    };
    assert_eq!(shared("[ -e /shared/x ]"), "unknown");
    assert_eq!(shared("touch /shared/x; [ -e /shared/x ]"), "0ns exit 0");
}

#[test]
fn variables_that_kubelets_replace_are_not_understood() {
    let with = |command: &[&str], env: &str| {
        let env: serde_json::Value = serde_json::from_str(env).unwrap();
        outcome(&serde_json::json!({"command": command, "env": env}).to_string(), 0)
    };
    let env = r#"[{"name":"A","value":"1"},{"name":"B","value":"$(A)"},{"name":"A","value":"2"}]"#;
    assert_eq!(with(&["sh", "-c", "exit $A"], env), "0ns exit 2", "the last one counts");
    assert_eq!(with(&["sh", "-c", "exit $B"], env), "unknown");
    assert_eq!(with(&["test", "$(A)", "=", "2"], env), "unknown");
    assert_eq!(with(&["test", "$$(A)", "=", "2"], env), "unknown");
    assert_eq!(with(&["test", "$(C)", "=", "$(C)"], env), "0ns exit 0", "it remains as it is");
}
