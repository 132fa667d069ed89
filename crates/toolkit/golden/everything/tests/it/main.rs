//! The operator against an API server in the same process, whose clock only a test advances.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::time::Duration;

use operator_demo::{add_to, crds};
use runtime::{BackgroundManager, ManagerOptions, crd};
use testenv::TestEnv;

mod custom_pod;
mod vpc;
// sampan:modules

/// A server with the CRDs, and the operator.
struct World {
    env: TestEnv,
    operator: BackgroundManager,
}

impl World {
    async fn start() -> Self {
        let env = TestEnv::start().await;
        for crd in crds().unwrap() {
            env.install_crd(&crd).await;
        }
        let options = ManagerOptions { clock: env.clock().clone(), ..ManagerOptions::default() };
        let operator = BackgroundManager::start("operator", env.kube(), options, add_to);
        Self { env, operator }
    }

    /// Waits until the operator has nothing left to do.
    async fn settle(&self) {
        self.operator.manager().settled(Duration::from_mins(1)).await.unwrap();
    }

    /// Creates the object of a YAML file.
    #[allow(dead_code, reason = "for the tests of kinds")]
    async fn create(&self, path: &str, yaml: &'static str) {
        let post = "POST".parse().unwrap();
        let response = self.env.send(post, path, "application/yaml", yaml).await;
        assert_eq!(response.code, 201, "{}", response.text());
    }

    async fn stop(self) {
        self.operator.stop().await.unwrap();
        self.env.stop().await.unwrap();
    }
}

#[tokio::test]
async fn the_crds_are_valid_and_the_operator_starts() {
    crds().unwrap().iter().for_each(|it| crd::validate(it).unwrap());
    let world = World::start().await;
    world.settle().await;
    world.stop().await;
}
