//! `OwnerReferencesPermissionEnforcement`: the permission to block the deletion of an owner,
//! which members of `system:masters` have.

use super::plane_with;
use crate::objects::{CONFIG_MAPS, config_map};
use machinery::json;

#[tokio::test]
async fn an_administrator_can_set_block_owner_deletion() {
    let plane = plane_with(&["OwnerReferencesPermissionEnforcement"], &[]).await;
    let owner = plane.create(CONFIG_MAPS, &config_map("owner", &json!({}))).await;
    let mut owned = config_map("owned", &json!({}));
    owned["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap",
        "name": "owner", "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true}]);
    plane.create(CONFIG_MAPS, &owned).await;
    let none = json!({"metadata": {"ownerReferences": null}});
    plane.merge(&format!("{CONFIG_MAPS}/owned"), &none).await;
}
