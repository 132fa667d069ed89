//! `sampan doctor`.

use std::fs;

use crate::command_line::Sampan;
use machinery::Value;
use testenv::TestEnv;

#[tokio::test]
async fn the_report_has_a_line_for_each_check_and_says_what_to_do() {
    let sampan = Sampan::new();
    let report = sampan.run_with("doctor --kubeconfig DIR/none", "").await.unwrap();
    for line in ["build    ok       cargo: cargo 1.", "build    ok       rustc: rustc 1."] {
        assert!(report.contains(line), "{report}");
    }
    let cluster = report.lines().find(|line| line.starts_with("run ")).unwrap();
    assert!(cluster.contains("optional kubeconfig") && cluster.contains("; next: "), "{cluster}");
    assert!(report.lines().any(|line| line.starts_with("image ")), "{report}");
    assert!(!report.contains("registry"), "{report}");

    let json = sampan.run_with("doctor --kubeconfig DIR/none -o json", "").await.unwrap();
    let checks: Vec<Value> = serde_json::from_str(&json).unwrap();
    assert_eq!(checks.len(), report.lines().count());
    assert_eq!((&checks[0]["topic"], &checks[0]["status"]), (&"build".into(), &"ok".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_this_machine_is_asked_and_another_one_only_online() {
    let env = TestEnv::builder().system_clock().listen().start().await;
    let sampan = Sampan::new();
    fs::create_dir(sampan.root()).unwrap();
    fs::write(sampan.root().join("here"), env.kubeconfig()).unwrap();
    let report = sampan.run_with("doctor --kubeconfig DIR/here", "").await.unwrap();
    assert!(report.contains("run      ok       kubeconfig: https://127.0.0.1:"), "{report}");
    let there = env.kubeconfig().replace("https://127.0.0.1", "https://sampan.invalid");
    fs::write(sampan.root().join("there"), there).unwrap();
    let report = sampan.run_with("doctor --kubeconfig DIR/there", "").await.unwrap();
    assert!(report.contains("run      skipped  kubeconfig: https://sampan.invalid"), "{report}");
    env.stop().await.unwrap();
    let report = sampan.run_with("doctor --kubeconfig DIR/here", "").await.unwrap();
    assert!(report.contains("does not respond"), "{report}");
}
