//! The bench against a real server in memory, and against servers that cannot be used.

use std::future::pending;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;
use fixtures::CRDS;

use super::*;
use testenv::TestEnv;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: BenchArgs,
}

fn parse(line: &[&str]) -> Result<BenchArgs, clap::Error> {
    Line::try_parse_from([&["bench"], line].concat()).map(|line| line.args)
}

/// Starts a plane and writes a kubeconfig for it.
async fn plane(directory: &Path) -> (TestEnv, PathBuf) {
    let env = TestEnv::builder().system_clock().listen().start().await;
    let path = directory.join("config");
    std::fs::write(&path, env.kubeconfig()).unwrap();
    (env, path)
}

async fn bench(path: &Path, line: &[&str]) -> Result<(Report, Result<()>)> {
    let path = path.to_str().unwrap();
    let args = parse(&[&["--kubeconfig", path], line].concat()).unwrap();
    measure(&args, pending).await
}

/// The names of all objects of a collection that a bench created.
async fn names(path: &Path, collection: &str) -> Vec<String> {
    let args = parse(&["--kubeconfig", path.to_str().unwrap()]).unwrap();
    let tasks = Tasks::new();
    let pool = Pool::connect(&endpoint(&args).unwrap(), 1, 1, &tasks).await.unwrap();
    let list: Value = serde_json::from_slice(&pool.get(collection).await.unwrap()).unwrap();
    let items = list["items"].as_array().unwrap();
    let names = items.iter().map(|it| it["metadata"]["name"].as_str().unwrap().to_owned());
    names.filter(|it| it.contains("bench-")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bench_measures_all_operations_and_removes_its_objects() {
    let directory = tempfile::tempdir().unwrap();
    let (env, path) = plane(directory.path()).await;
    let own = std::process::id().to_string();
    let line = ["--objects", "10", "--concurrency", "1,4", "--watchers", "3,120", "--pid", &own];
    let (report, ended) = bench(&path, &line).await.unwrap();
    ended.unwrap();
    assert_eq!(report.failures, Vec::<String>::new());
    let rows: Vec<String> = report
        .rows
        .iter()
        .map(|it| format!("{} {} {} {}", it.resource, it.operation, it.concurrency, it.count))
        .collect();
    let mut expected = vec!["definitions register 1 5".to_owned()];
    for resource in ["configmaps", "widgets"] {
        for operation in ["create", "get", "list", "update", "patch", "delete"] {
            for clients in [1, 4] {
                let count = if operation == "list" { 2 * clients } else { 10 };
                expected.push(format!("{resource} {operation} {clients} {count}"));
            }
        }
    }
    expected.extend(["widgets watch 3 30".to_owned(), "widgets watch 120 1200".to_owned()]);
    assert_eq!(rows, expected);
    assert!(report.rows.iter().all(|it| it.p99_ms >= it.p50_ms && it.per_second > 0.0));
    assert!(report.rows.iter().all(|it| it.memory_bytes.is_some()));
    assert!(report.rows.iter().any(|it| it.server_cpu_us.is_some()));
    let list = report.rows.iter().find(|it| it.operation == "list").unwrap();
    assert!(list.bytes.unwrap() > 10.0 * 1024.0, "a list has all objects");
    assert_eq!(names(&path, CRDS).await, Vec::<String>::new());
    env.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_bench_removes_its_objects() {
    let directory = tempfile::tempdir().unwrap();
    let (env, path) = plane(directory.path()).await;
    let was_interrupted = AtomicBool::new(false);
    let interrupt = async || {
        if was_interrupted.swap(true, Ordering::Relaxed) {
            return pending().await;
        }
        while names(&path, "/api/v1/configmaps").await.is_empty() {}
        Ok(())
    };
    let line = ["--kubeconfig", path.to_str().unwrap(), "--objects", "100000"];
    let (_, ended) = measure(&parse(&line).unwrap(), interrupt).await.unwrap();
    assert_eq!(ended.unwrap_err().to_string(), "interrupted");
    assert_eq!(names(&path, "/api/v1/configmaps").await, Vec::<String>::new());
    assert_eq!(names(&path, CRDS).await, Vec::<String>::new());
    env.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_that_are_not_measured_run_only_if_needed() {
    let directory = tempfile::tempdir().unwrap();
    let (env, path) = plane(directory.path()).await;
    let line = ["--objects", "6", "--concurrency", "8,2,8", "--operations", "get", "--resources"];
    let (report, ended) = bench(&path, &[&line[..], &["configmaps"]].concat()).await.unwrap();
    ended.unwrap();
    let figures = |it: &report::Row| (it.operation, it.concurrency, it.count);
    let rows: Vec<_> = report.rows.iter().map(figures).collect();
    assert_eq!(rows, [("get", 8, 8), ("get", 2, 8)], "there is an object for each client");
    env.stop().await.unwrap();
}

/// A kubeconfig for a server at a URL, without credentials.
fn kubeconfig_of(directory: &Path, url: &str) -> PathBuf {
    let path = directory.join("config");
    let text = format!(
        "{{current-context: a, contexts: [{{name: a, context: {{cluster: a}}}}], \
         clusters: [{{name: a, cluster: {{server: '{url}'}}}}]}}"
    );
    std::fs::write(&path, text).unwrap();
    path
}

#[tokio::test]
async fn a_remote_server_is_refused_unless_allowed() {
    let directory = tempfile::tempdir().unwrap();
    let path = kubeconfig_of(directory.path(), "http://10.9.8.7:6443");
    let error = bench(&path, &[]).await.unwrap_err().to_string();
    assert!(error.contains("10.9.8.7:6443 is not on this machine"), "{error}");
    assert!(error.contains("--allow-remote"), "{error}");
    let allowed = parse(&["--allow-remote", "--kubeconfig", path.to_str().unwrap()]).unwrap();
    assert!(!endpoint(&allowed).unwrap().is_loopback());
}

#[tokio::test]
async fn without_a_server_the_error_names_the_command_that_starts_one() {
    let directory = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = bench(&kubeconfig_of(directory.path(), &url), &[]).await.unwrap_err().to_string();
    assert!(error.contains(&format!("no server listens at {url}")), "{error}");
    assert!(error.contains("start one with `sampan up`"), "{error}");
}

#[test]
fn numbers_out_of_bounds_are_refused() {
    for line in [
        ["--concurrency", "0"],
        ["--concurrency", "1,10001"],
        ["--watchers", "10001"],
        ["--objects", "many"],
        ["--seconds", "0"],
        ["--operations", "dance"],
    ] {
        assert!(parse(&line).is_err(), "{line:?}");
    }
}

#[test]
fn the_defaults_measure_everything() {
    let args = parse(&[]).unwrap();
    assert_eq!(args.operations, Operation::value_variants());
    assert_eq!((args.concurrency.as_slice(), args.objects), ([1, 16, 64].as_slice(), 1000));
    assert_eq!(rows(&args), 2 * 3 * 6 + 3 + 1);
}

#[tokio::test]
async fn a_server_with_the_certificate_of_another_plane_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let paths = ["first", "second"].map(|it| directory.path().join(it));
    for path in &paths {
        std::fs::create_dir(path).unwrap();
    }
    let (_first, path) = plane(&paths[0]).await;
    let (_second, others) = plane(&paths[1]).await;
    let [text, other] = [&path, &others].map(|it| std::fs::read_to_string(it).unwrap());
    let url = |text: &str| text.lines().find(|it| it.contains("server:")).unwrap().to_owned();
    std::fs::write(&path, text.replace(&url(&text), &url(&other))).unwrap();
    let error = bench(&path, &[]).await.unwrap_err().to_string();
    assert!(error.contains("is not the one that the kubeconfig describes"), "{error}");
}
