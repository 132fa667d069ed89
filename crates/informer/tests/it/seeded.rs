//! Random tests that can be repeated: each prints its seed, and `SEED=7 cargo test …` runs that one.

use keel::Entropy;

/// Runs `test` with `count` seeds, or with the one in the environment.
pub(crate) fn for_seeds(count: u64, test: impl Fn(Entropy)) {
    let chosen = std::env::var("SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    let seeds = chosen.map_or(0..count, |seed| seed..seed + 1);
    for seed in seeds {
        #[allow(clippy::print_stdout, reason = "shown for a test that fails")]
        {
            println!("SEED={seed}");
        }
        test(Entropy::seeded(seed));
    }
}

/// One of `choices`.
pub(crate) fn pick<T: Copy>(entropy: &Entropy, choices: &[T]) -> T {
    choices[usize::try_from(entropy.below(choices.len() as u64)).expect("an index")]
}
