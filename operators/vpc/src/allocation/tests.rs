//! Tests of the allocation rule: one by one, and on random histories.

use super::*;
use keel::Entropy;

fn cidr(text: &str) -> Cidr {
    text.parse().unwrap()
}

/// Applies a history of blocks and numbers of subnets, and prints the subnets after each.
fn check(history: &[(&str, usize)], expected: &[&str]) {
    let mut present = BTreeMap::new();
    let mut found = Vec::new();
    for (block, count) in history {
        let subnets = allocate(cidr(block), *count, &present).unwrap();
        found.push(subnets.iter().map(Cidr::to_string).collect::<Vec<_>>().join(" "));
        present = subnets.into_iter().enumerate().collect();
    }
    assert_eq!(found, expected);
}

#[test]
fn a_new_block_is_split_into_equal_parts() {
    check(&[("10.0.0.0/16", 1)], &["10.0.0.0/16"]);
    check(&[("10.0.0.0/16", 2)], &["10.0.0.0/17 10.0.128.0/17"]);
    check(&[("10.0.0.0/16", 3)], &["10.0.0.0/18 10.0.64.0/18 10.0.128.0/18"]);
    check(&[("10.0.0.0/16", 0)], &[""]);
}

#[test]
fn more_subnets_of_the_same_size_change_no_other() {
    check(
        &[("10.0.0.0/24", 3), ("10.0.0.0/24", 4)],
        &[
            "10.0.0.0/26 10.0.0.64/26 10.0.0.128/26",
            "10.0.0.0/26 10.0.0.64/26 10.0.0.128/26 10.0.0.192/26",
        ],
    );
}

#[test]
fn fewer_subnets_change_no_other() {
    check(
        &[("10.0.0.0/24", 4), ("10.0.0.0/24", 1), ("10.0.0.0/24", 2)],
        &[
            "10.0.0.0/26 10.0.0.64/26 10.0.0.128/26 10.0.0.192/26",
            "10.0.0.0/26",
            "10.0.0.0/26 10.0.0.128/25",
        ],
    );
}

#[test]
fn only_as_many_subnets_as_needed_are_narrowed() {
    check(
        &[("10.0.0.0/16", 2), ("10.0.0.0/16", 3), ("10.0.0.0/16", 4), ("10.0.0.0/16", 5)],
        &[
            "10.0.0.0/17 10.0.128.0/17",
            "10.0.0.0/17 10.0.128.0/18 10.0.192.0/18",
            "10.0.0.0/18 10.0.128.0/18 10.0.192.0/18 10.0.64.0/18",
            "10.0.0.0/18 10.0.128.0/18 10.0.192.0/19 10.0.64.0/18 10.0.224.0/19",
        ],
    );
}

#[test]
fn a_larger_block_keeps_all_subnets_and_another_one_none() {
    check(
        &[("10.0.0.0/16", 2), ("10.0.0.0/15", 3), ("10.9.0.0/16", 3)],
        &[
            "10.0.0.0/17 10.0.128.0/17",
            "10.0.0.0/17 10.0.128.0/17 10.1.0.0/17",
            "10.9.0.0/18 10.9.64.0/18 10.9.128.0/18",
        ],
    );
}

#[test]
fn a_smaller_block_keeps_and_narrows_the_subnets_that_begin_in_it() {
    check(
        &[("10.0.0.0/16", 2), ("10.0.0.0/20", 2), ("10.0.8.0/21", 2)],
        &["10.0.0.0/17 10.0.128.0/17", "10.0.0.0/21 10.0.8.0/21", "10.0.12.0/22 10.0.8.0/22"],
    );
}

#[test]
fn a_block_is_too_small_for_subnets_without_hosts() {
    let refused = allocate(cidr("10.0.0.0/28"), 5, &BTreeMap::new()).unwrap_err();
    let message = "10.0.0.0/28 is too small for 5 subnets, each of at least 4 addresses";
    assert_eq!(refused.to_string(), message);
    assert_eq!(allocate(cidr("10.0.0.0/28"), 4, &BTreeMap::new()).unwrap().len(), 4);
    assert!(allocate(cidr("10.0.0.0/31"), 1, &BTreeMap::new()).is_err());
    assert!(allocate(cidr("10.0.0.0/16"), usize::MAX / 2 + 1, &BTreeMap::new()).is_err());
    assert!(allocate(cidr("10.0.0.0/16"), usize::MAX, &BTreeMap::new()).is_err());
}

#[test]
fn subnets_that_somebody_has_damaged_are_replaced() {
    let present = [(0, cidr("10.0.0.0/18")), (1, cidr("10.0.32.0/19")), (2, cidr("9.0.0.0/18"))];
    let present = present.into_iter().chain([(3, cidr("10.0.64.0/31"))]).collect();
    let subnets = allocate(cidr("10.0.0.0/16"), 4, &present).unwrap();
    let texts: Vec<_> = subnets.iter().map(Cidr::to_string).collect();
    assert_eq!(texts, ["10.0.0.0/18", "10.0.64.0/18", "10.0.128.0/18", "10.0.192.0/18"]);
}

#[test]
fn no_history_makes_subnets_overlap_or_changes_their_first_address() {
    let entropy = Entropy::seeded(1);
    for _ in 0..200 {
        let mut present: BTreeMap<usize, Cidr> = BTreeMap::new();
        for _ in 0..20 {
            let block = cidr(["10.0.0.0/24", "10.0.0.0/26", "10.0.0.0/20"][random(&entropy, 3)]);
            let count = random(&entropy, 17);
            let before = present.clone();
            let subnets = allocate(block, count, &present).unwrap();
            assert_eq!(subnets.len(), count);
            present = subnets.into_iter().enumerate().collect();
            for (number, subnet) in &present {
                assert!(block.contains(*subnet) && subnet.prefix() <= MAX_PREFIX);
                let others = present.iter().filter(|(other, _)| *other != number);
                assert!(others.into_iter().all(|(_, other)| !other.overlaps(*subnet)));
                if let Some(old) = before.get(number)
                    && block.contains(*old)
                {
                    assert_eq!(old.gateway(), subnet.gateway());
                    assert!(old.contains(*subnet));
                }
            }
        }
    }
}

fn random(entropy: &Entropy, below: u64) -> usize {
    usize::try_from(entropy.below(below)).unwrap()
}
