//! Large requests of different shapes: their cost grows linearly with their size.
//!
//! A shape is measured at one size and at four times that size, in CPU time of this thread, on which
//! the plane of a test runs. Quadratic work takes sixteen times as long.

mod aggregated_documents;
mod empty_elements;
mod limits_and_quotas;
mod metadata;
mod objects;
mod patches;
mod products;
mod queries;
mod schemas;
mod services;
mod updates;

use std::fs;
use std::time::Duration;

use http::Method;

use machinery::Value;
use testenv::media_type::JSON;
use testenv::{Client, TestEnv};

/// The maximum ratio of the times of two sizes: twice the linear one.
const FACTOR: u32 = 8;

/// The resolution of the measurement, which is added to the maximum.
const TICKS: Duration = Duration::from_millis(60);

/// The maximum CPU time of a request of four times the size, in a build without optimization.
const MAX_TIME: Duration = Duration::from_secs(30);

/// A request that is measured.
struct TestRequest {
    method: Method,
    path: String,
    content_type: &'static str,
    body: String,
}

impl TestRequest {
    fn post(path: &str, object: &Value) -> Self {
        Self::new(Method::POST, format!("{path}?dryRun=All"), JSON, object.to_string())
    }

    fn new(method: Method, path: String, content_type: &'static str, body: String) -> Self {
        Self { method, path, content_type, body }
    }
}

/// The sizes in which [`check`] sends a shape: the first one fills caches, the others are measured.
fn sizes(size: usize) -> [usize; 3] {
    [size / 8, size, 4 * size]
}

/// Sends a request of a shape in two sizes and checks the ratio of their costs. `code` is the code of
/// both responses.
async fn check(client: &Client, code: u16, size: usize, shape: impl Fn(usize) -> TestRequest) {
    let [first, small, large] = sizes(size).map(&shape);
    assert!(
        large.body.len() <= 3 << 20,
        "{} bytes are more than a request may have",
        large.body.len()
    );
    cpu_time(client, code, &first).await;
    // Several times, because other processes disturb the measurement.
    let mut measured = Vec::new();
    for _ in 0..4 {
        let before = cpu_time(client, code, &small).await;
        let after = cpu_time(client, code, &large).await;
        assert!(after < MAX_TIME, "{after:?} for {} bytes", large.body.len());
        if after <= before * FACTOR + TICKS {
            return;
        }
        measured.push((before, after));
    }
    panic!("{} {}: superlinear CPU time: {measured:?}", small.method, small.path);
}

/// The CPU time of a request.
async fn cpu_time(client: &Client, code: u16, request: &TestRequest) -> Duration {
    let before = thread_cpu_time();
    let reply = client
        .send(request.method.clone(), &request.path, request.content_type, request.body.clone())
        .await;
    let spent = thread_cpu_time().saturating_sub(before);
    let text = String::from_utf8_lossy(&reply.bytes[..reply.bytes.len().min(400)]).into_owned();
    assert_eq!(reply.code, code, "{text}");
    spent
}

/// The CPU time of this thread.
fn thread_cpu_time() -> Duration {
    // The kernel updates the number when the thread yields.
    std::thread::yield_now();
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// A plane with an object.
async fn plane_with(path: &str, object: &Value) -> TestEnv {
    let plane = TestEnv::start().await;
    plane.create(path, object).await;
    plane
}
