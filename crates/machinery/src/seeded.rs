//! Property tests that try the same inputs each time.

use proptest::test_runner::{Config, RngSeed};

/// For `#![proptest_config(seeded::config())]`.
pub(crate) fn config() -> Config {
    Config { rng_seed: RngSeed::Fixed(38), failure_persistence: None, ..Config::default() }
}
