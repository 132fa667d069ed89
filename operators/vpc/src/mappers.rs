//! Mappers from objects to the Vpcs that are reconciled because of them, and the indices that they read.

use std::sync::Arc;

use crate::kinds::VPC_LABEL;
use crate::{Cidr, Network, Vpc};
use runtime::informer::{Indexer, Item};
use runtime::prelude::*;

/// The index of Vpcs by namespace and [`Vpc::vpc_name`].
const NAME_INDEX: &str = "vpcname";

/// The index of Vpcs by their block.
const BLOCK_INDEX: &str = "cidrblock";

/// Adds the indices to the cache of the Vpcs.
pub(crate) fn add_indices(vpcs: &Indexer) {
    vpcs.add_typed_index(NAME_INDEX, |vpc: &Vpc| {
        vec![format!("{}/{}", vpc.namespace().unwrap_or_default(), vpc.vpc_name())]
    });
    vpcs.add_typed_index(BLOCK_INDEX, |vpc: &Vpc| vec![vpc.spec.cidrblock.clone()]);
}

/// Maps a Network to the Vpc that it is named after, also if another controls it.
pub(crate) fn by_name() -> Mapper {
    Mapper::custom(|network| {
        let vpc = network.name().rsplit_once('-').map(|(vpc, _)| vpc);
        vpc.map(|vpc| Request::new(network.namespace(), vpc)).into_iter().collect()
    })
}

/// Maps a Network to the Vpcs whose blocks have some of its addresses: they may wait for them.
pub(crate) fn by_addresses(vpcs: Arc<Indexer>) -> Mapper {
    Mapper::typed(move |network: &Network| {
        let Ok(cidr) = network.spec.cidr.parse::<Cidr>() else { return Vec::new() };
        let mut blocks = vpcs.index_values(BLOCK_INDEX).unwrap_or_default();
        blocks.retain(|block| block.parse().is_ok_and(|block: Cidr| block.overlaps(cidr)));
        let found = blocks.iter().filter_map(|block| vpcs.by_index(BLOCK_INDEX, block).ok());
        found.flatten().map(|vpc: Item| vpc.key().clone()).collect()
    })
}

/// Maps a pod to the Vpcs that its label names.
pub(crate) fn by_label(vpcs: Arc<Indexer>) -> Mapper {
    Mapper::custom(move |pod| {
        let labels = pod.labels();
        let Some(name) = labels.get(VPC_LABEL) else { return Vec::new() };
        let found = vpcs.by_index(NAME_INDEX, &format!("{}/{name}", pod.namespace()));
        found.unwrap_or_default().iter().map(|vpc| vpc.key().clone()).collect()
    })
}
