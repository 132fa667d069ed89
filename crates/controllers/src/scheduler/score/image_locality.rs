//! The score ImageLocality: nodes that have the images of the pod, if these are large.
//!
//! Upstream: plugins/imagelocality/image_locality.go

use super::MAX_SCORE;
use crate::scheduler::cluster_cache::{ClusterCache, NodeId};
use crate::scheduler::pod_info::PodTraits;

/// Smaller sums of image sizes do not count.
const MIN_THRESHOLD: i64 = 23 << 20;
/// The size of one image from which on the score is the highest.
const MAX_CONTAINER_THRESHOLD: i64 = 1000 << 20;

/// `None` if no node has an image of the pod.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "upstream computes with float64 and cuts off the fraction"
)]
pub(super) fn score(cache: &ClusterCache, pod: &PodTraits, nodes: &[NodeId]) -> Option<Vec<i64>> {
    let total = cache.node_order().len() as f64;
    let spreads = pod.images.iter().map(|image| (image, cache.nodes_with_image(image)));
    let spreads: Vec<_> = spreads.filter(|(_, count)| *count > 0).collect();
    if spreads.is_empty() {
        return None;
    }
    let max = MAX_CONTAINER_THRESHOLD * i64::try_from(pod.images.len()).unwrap_or(i64::MAX >> 32);
    let score = |id: &NodeId| {
        let images = &cache.node(*id).object.images;
        let sizes = spreads.iter().filter_map(|(image, count)| {
            // An image that few nodes have counts less, so that pods do not crowd on these.
            let spread = *count as f64 / total;
            images.get(*image).map(|size| (*size as f64 * spread) as i64)
        });
        let sum = sizes.sum::<i64>().clamp(MIN_THRESHOLD, max);
        MAX_SCORE * (sum - MIN_THRESHOLD) / (max - MIN_THRESHOLD)
    };
    Some(nodes.iter().map(score).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::testing::{cluster, node, pod_json};

    #[test]
    fn a_node_with_a_large_image_scores_higher() {
        let mut cache = cluster("b", &[]);
        let mut object = node("a", "cpu=4");
        object.images.insert("big:latest".to_owned(), 1023 << 20);
        cache.set_node(object);
        cache.refresh_order();
        let nodes: Vec<_> = ["a", "b"].map(|name| cache.find_node(name).unwrap()).into();
        let score = |image: &str| {
            let pod = pod_json(&format!(r#"{{"containers":[{{"image":"{image}"}}]}}"#));
            score(&cache, &pod.traits, &nodes)
        };
        assert_eq!(score("big"), Some(vec![50, 0]));
        assert_eq!(score("small"), None);
    }
}
