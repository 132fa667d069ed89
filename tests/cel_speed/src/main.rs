//! Evaluates the rules of real CRDs on their example objects, once by our CEL and once by
//! the public crate `cel`, and prints the CPU time of each.
//!
//! The argument is a folder of projects: `PROJECT/crds/*.yaml` and
//! `PROJECT/examples/KIND.GROUP/*.yaml`. Rules that the crate cannot compile or evaluate, or evaluates
//! differently, are counted and omitted.

mod corpus;
mod public;

use std::path::Path;
use std::{env, fs};

use corpus::{Case, Evaluation};
use machinery::{ErrorList, Map, Value};
use public::PublicCel;
use schema::Structural;

/// The number of times that all rules are evaluated in one measurement.
const ROUNDS: usize = 50;

/// The number of measurements. The fastest counts, since other programs only make it slower.
const MEASUREMENTS: usize = 20;

fn main() {
    let folder = env::args().nth(1).expect("usage: cel_speed FOLDER");
    let mut cases = corpus::read(Path::new(&folder));
    let rules: Vec<String> = cases.iter().flat_map(|it| corpus::rules(&it.schema)).collect();
    let public = PublicCel::new();
    let refused = rules.iter().filter(|it| !public.compiles(it)).count();
    let mut results = public::Results::default();
    for case in &cases {
        results.add(&public, &case.evaluations());
    }
    let comparable = results.comparable();
    for case in &mut cases {
        corpus::retain_rules(&mut case.schema, &comparable);
    }
    cases.retain(|it| !it.evaluations().is_empty());
    let evaluations: usize = cases.iter().map(|it| it.evaluations().len()).sum();
    println!("{} rules, without those about the old value", rules.len());
    println!("crate cel does not compile {refused} of them");
    println!("{results}");
    println!("{evaluations} evaluations on {} objects, CPU time of each:", objects(&cases));

    let ours = ours(&cases) / evaluations as f64;
    let (converting, evaluating) = public.measure(&cases);
    let (converting, evaluating) =
        (converting / evaluations as f64, evaluating / evaluations as f64);
    println!("  ours, walk through the object included    {ours:8.2} µs");
    println!("  crate cel, value converted beforehand     {evaluating:8.2} µs");
    println!("  crate cel, with the conversion            {converting:8.2} µs");
    println!("  ratio                {:.1} to {:.1}", evaluating / ours, converting / ours);
}

fn objects(cases: &[Case]) -> usize {
    cases.iter().map(|it| it.objects.len()).sum()
}

/// The CPU time of one round with our CEL, in microseconds.
fn ours(cases: &[Case]) -> f64 {
    let compiled: Vec<(Structural, &[Map<String, Value>])> =
        cases.iter().map(|it| (Structural::compile(&it.schema), &*it.objects)).collect();
    let round = || {
        for (schema, objects) in &compiled {
            for object in *objects {
                let mut errors = ErrorList::new();
                schema.validate_rules(object, None, &mut errors);
                assert!(errors.is_empty(), "{errors:?}");
            }
        }
    };
    fastest(round)
}

/// The CPU time of one round in the fastest measurement, in microseconds.
fn fastest(mut round: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..MEASUREMENTS {
        let before = cpu_time();
        (0..ROUNDS).for_each(|_| round());
        best = best.min((cpu_time() - before) / ROUNDS as f64);
    }
    best
}

/// The CPU time of this thread, in microseconds.
fn cpu_time() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("this is Linux");
    let nanoseconds: f64 =
        text.split(' ').next().and_then(|it| it.parse().ok()).expect("the first field is a number");
    nanoseconds / 1000.0
}
