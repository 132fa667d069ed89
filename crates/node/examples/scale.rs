//! Measures simulated nodes: the time from bound to Running, CPU time when idle, and memory.
//!
//! ```text
//! cargo run --release -p sampan-node --example scale -- NODES PODS
//! ```
//!
//! The plane is in memory and in this process, without controllers and without a scheduler. The first
//! PODS pods are created while the nodes are stopped, and then started all at once; as many again are
//! created while the nodes run.

#![allow(clippy::print_stdout, reason = "the results of a measurement")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a measurement fails by a panic")]

use std::sync::Arc;
use std::time::Duration;

use apiserver::auth::authentication::User;
use apiserver::auth::authorization::fixed_roles::FixedRoles;
use keel::{Clock, Entropy, Tasks};
use machinery::json;
use node::{Capacity, SimulatedNodes, SimulatedNodesOptions};
use runtime::{ApiService, Identity};
use testenv::TestEnv;

/// As in the program `sampan`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PODS: &str = "/api/v1/namespaces/default/pods";
const IDLE: Duration = Duration::from_secs(20);

#[tokio::main]
async fn main() {
    let mut numbers = std::env::args().skip(1).map(|argument| argument.parse::<usize>().unwrap());
    let (nodes, pods) = (numbers.next().unwrap_or(100), numbers.next().unwrap_or(10_000));
    let clock = Clock::system();
    let roles = node::roles().into_iter().map(|it| (it.identity.user, it.rules.to_vec()));
    let roles = Arc::new(FixedRoles::new(roles));
    let builder = TestEnv::builder().system_clock();
    let env = builder.config(|config| config.authorizers.push(roles.into())).start().await;

    let start = clock.instant();
    let running = start_nodes(&env, nodes);
    let last = nodes.saturating_sub(1);
    let lease =
        format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/sampan-{last}");
    env.until(&lease, |code, _| code == 200).await;
    println!("{nodes} nodes registered in {:?}", clock.elapsed_since(&start));
    report_idle(&clock, &format!("{nodes} nodes")).await;

    running.stop().await.unwrap();
    create(&env, 0..pods, nodes).await;
    let (start, cpu) = (clock.instant(), cpu_seconds());
    let running = start_nodes(&env, nodes);
    wait_for_pods(&env, &clock).await;
    let (elapsed, cpu) = (clock.elapsed_since(&start), cpu_seconds() - cpu);
    println!("{pods} bound pods are Running after {elapsed:?}, with {cpu:.2} s of CPU time");

    let (start, cpu) = (clock.instant(), cpu_seconds());
    create(&env, pods..2 * pods, nodes).await;
    wait_for_pods(&env, &clock).await;
    let (elapsed, cpu) = (clock.elapsed_since(&start), cpu_seconds() - cpu);
    println!("{pods} more are created and Running after {elapsed:?}, with {cpu:.2} s of CPU time");
    report_idle(&clock, &format!("{nodes} nodes and {} pods", 2 * pods)).await;
    running.stop().await.unwrap();
    env.stop().await.unwrap();
}

fn start_nodes(env: &TestEnv, count: usize) -> SimulatedNodes {
    let client = env.server().in_process_client();
    SimulatedNodes::start(&SimulatedNodesOptions {
        tasks: Tasks::new(),
        count,
        termination: Duration::ZERO,
        capacity: Capacity::default(),
        connect: Arc::new(move |identity: &Identity| {
            let user = User::component(&identity.user, identity.groups.clone());
            ApiService::new(client.for_user(user), "default")
        }),
        clock: env.clock().clone(),
        entropy: Entropy::seeded(1),
    })
}

/// Creates pods that are bound to all nodes in turn, 32 at a time.
async fn create(env: &TestEnv, pods: std::ops::Range<usize>, nodes: usize) {
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..32 {
        let (client, pods) = (env.client(), pods.clone());
        workers.spawn(async move {
            for index in pods.skip(worker).step_by(32) {
                let container = json!({"name": "main", "image": "example.com/app:1"});
                let node = format!("sampan-{}", index % nodes);
                let spec = json!({"nodeName": node, "containers": [container]});
                let metadata = json!({"name": format!("p{index}"), "labels": {"app": "web"}});
                client.create(PODS, &json!({"metadata": metadata, "spec": spec})).await;
            }
        });
    }
    workers.join_all().await;
}

async fn wait_for_pods(env: &TestEnv, clock: &Clock) {
    loop {
        let path = format!("{PODS}?fieldSelector=status.phase!%3DRunning&limit=1");
        if env.read(&path).await["items"].as_array().unwrap().is_empty() {
            return;
        }
        clock.sleep(Duration::from_millis(500)).await;
    }
}

async fn report_idle(clock: &Clock, what: &str) {
    clock.sleep(Duration::from_secs(5)).await;
    let cpu = cpu_seconds();
    clock.sleep(IDLE).await;
    let share = (cpu_seconds() - cpu) / IDLE.as_secs_f64() * 100.0;
    println!("{what}: {share:.2} % of a core when idle, {}", resident_memory());
}

/// The CPU time of this process, from the clock ticks of 10 ms that Linux counts.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
    let ticks = fields.skip(11).take(2).map(|field| field.parse::<f64>().unwrap());
    ticks.sum::<f64>() / 100.0
}

fn resident_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}
