//! Measures what informers in the process of their server cost.
//!
//! `cargo run --release -p sampan-runtime --example in_process_caches [OBJECTS]` prints, for items
//! that share the bytes of the server and for items from the body of a response, the CPU time of a
//! create without and with informers, and the memory of the objects without and with an informer.
//! `managed` and `direct` create with the client of a manager, over another client and over the
//! service of the server. Each measurement runs in a process of its own, for example for
//! `valgrind --tool=callgrind …/in_process_caches shared 3 2500`.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a tool for the terminal")]

use std::future::Future;
use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::{convert, fs};

use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::api::PostParams;
use kube_client::client::Body;
use kube_client::{Api, Client};
use tower_service::Service;

use apiserver::InProcessClient;
use informer::{InformerOptions, Scope, SharedInformer};
use keel::{Clock, Entropy, Tasks};
use machinery::{GroupVersion, Value, json};
use runtime::{ApiService, Manager, ManagerOptions};
use testenv::TestEnv;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// An in-process client without extensions, as if it were behind a socket.
#[derive(Clone)]
struct WithoutExtensions(InProcessClient);

impl Service<Request<Body>> for WithoutExtensions {
    type Response = Response<apiserver::http::body::Body>;
    type Error = convert::Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        request.extensions_mut().clear();
        self.0.call(request)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [kind, informers, objects] => {
            measure(kind, informers.parse().unwrap(), objects.parse().unwrap()).await;
        }
        ref rest => {
            let objects = rest.first().map_or("100000", |objects| objects);
            for (kind, informers) in
                [("shared", 0), ("shared", 1), ("shared", 3), ("body", 1), ("body", 3)]
                    .into_iter()
                    .chain([("managed", 1), ("direct", 1)])
            {
                let program = std::env::current_exe().unwrap();
                let informers = informers.to_string();
                let status =
                    Command::new(program).args([kind, &informers, objects]).status().unwrap();
                assert!(status.success());
            }
        }
    }
}

/// The creates before the measurement.
const WARM_UP: usize = 2000;

#[allow(clippy::cast_precision_loss, reason = "there are fewer than 2^52 objects")]
async fn measure(kind: &str, informers: usize, objects: usize) {
    let env = TestEnv::builder().system_clock().start().await;
    let in_process = env.server().in_process_client();
    let client = match kind {
        "body" => Client::new(WithoutExtensions(in_process), "default"),
        _ => Client::new(in_process, "default"),
    };
    if matches!(kind, "managed" | "direct") {
        return measure_managed(&env, client, kind, objects).await;
    }
    let tasks = Tasks::new();
    let informers: Vec<SharedInformer> =
        (0..informers).map(|_| informer(client.clone(), &tasks)).collect();
    for informer in &informers {
        informer.has_synced().wait().await;
    }
    for index in 0..WARM_UP {
        create(&env, index).await;
    }
    let before = cpu_seconds();
    for index in WARM_UP..WARM_UP + objects {
        create(&env, index).await;
    }
    for informer in &informers {
        while informer.indexer().len() < objects {
            tokio::task::yield_now().await;
        }
    }
    let micros = (cpu_seconds() - before) * 1e6 / objects as f64;
    println!(
        "{kind:7} {} informers: {micros:5.1} µs of CPU per create, {:4} MiB with {objects} objects",
        informers.len(),
        resident_mebibytes(),
    );
}

#[allow(clippy::cast_precision_loss, reason = "there are fewer than 2^52 objects")]
async fn measure_managed(env: &TestEnv, client: Client, kind: &str, objects: usize) {
    let options = ManagerOptions { handles_signals: false, ..ManagerOptions::default() };
    let manager = Manager::new(client, options);
    let informer = manager.informer::<ConfigMap>();
    let running = manager.clone();
    let ended = Tasks::new().spawn("manager", async move { running.run().await });
    informer.has_synced().wait().await;
    let client = match kind {
        "direct" => {
            let service = ApiService::new(env.server().in_process_client(), "default");
            manager.managed_client(service)
        }
        _ => manager.client(),
    };
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let create = async |index| {
        let map: ConfigMap = serde_json::from_value(config_map(index)).unwrap();
        maps.create(&PostParams::default(), &map).await
    };
    // Writes are refused until the manager leads.
    while create(0).await.is_err() {
        tokio::task::yield_now().await;
    }
    for index in 1..WARM_UP {
        create(index).await.unwrap();
    }
    let before = cpu_seconds();
    for index in WARM_UP..WARM_UP + objects {
        create(index).await.unwrap();
    }
    let micros = (cpu_seconds() - before) * 1e6 / objects as f64;
    println!("{kind:7} client: {micros:5.1} µs of CPU per create");
    manager.stop();
    ended.await.unwrap().unwrap();
}

fn informer(client: Client, tasks: &Tasks) -> SharedInformer {
    let scope = Scope::all(GroupVersion::new("", "v1"), "configmaps");
    let source = client::source_of(client)(&scope);
    let options = InformerOptions::default();
    let (clock, entropy) = (Clock::system(), Entropy::system());
    let informer = SharedInformer::new(Arc::clone(&source), options, &clock, &entropy, tasks);
    informer.start();
    informer
}

async fn create(env: &TestEnv, index: usize) {
    env.create(MAPS, &config_map(index)).await;
}

fn config_map(index: usize) -> Value {
    let data = json!({"config": format!("setting-{index}={}", "x".repeat(1000))});
    let metadata = json!({"name": format!("m-{index}"), "labels": {"app": "web"}});
    json!({"metadata": metadata, "data": data})
}

/// The CPU time of this process; Linux counts in hundredths of a second.
fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

fn resident_mebibytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}
