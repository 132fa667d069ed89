//! Shuffle sharding: deals a hand of queues to each flow, so that two flows rarely have the same hand.
//! A flow that fills its queues leaves most other flows at least one queue that is not full.

/// The queues of the hand that belongs to `hash`, out of `deck` queues. They are distinct.
pub(super) fn deal(mut hash: u64, deck: u32, hand_size: u32) -> Vec<u32> {
    let size = hand_size.min(deck);
    let mut hand: Vec<u32> = Vec::with_capacity(size as usize);
    for dealt in 0..size {
        let left = u64::from(deck - dealt);
        #[allow(clippy::cast_possible_truncation, reason = "the remainder is less than a u32")]
        let mut card = (hash % left) as u32;
        hash /= left;
        // The card is a number among those that are left: count the ones that were dealt before it.
        // After each step up, a card that was passed before can be equal again, so all are compared.
        let mut passed = 0;
        loop {
            let lower = u32::try_from(hand.iter().filter(|it| **it <= card).count()).unwrap_or(0);
            if lower == passed {
                break;
            }
            card += lower - passed;
            passed = lower;
        }
        hand.push(card);
    }
    hand
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_queues_of_a_hand_are_distinct() {
        for hash in (0..1_000_u64).map(|it| it.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
            let hand: BTreeSet<u32> = deal(hash, 16, 4).into_iter().collect();
            assert_eq!(hand.len(), 4);
            assert!(hand.iter().all(|it| *it < 16));
        }
        assert_eq!(BTreeSet::from_iter(deal(u64::MAX, 3, 3)), [0, 1, 2].into());
        assert_eq!(deal(77, 1, 1), [0]);
    }

    #[test]
    fn all_hands_are_equally_likely() {
        let mut counts = [0; 20];
        for hash in 0..20 {
            let [a, b] = deal(hash, 5, 2)[..] else { panic!("two queues") };
            let order = if b > a { b - 1 } else { b };
            counts[usize::try_from(a * 4 + order).unwrap()] += 1;
        }
        assert_eq!(counts, [1; 20]);
    }
}
