//! `OwnerReferencesPermissionEnforcement`: the permission to block the deletion of an owner,
//! which members of `system:masters` have.

use super::plane_with;
use crate::objects::{MAPS, map};
use machinery::json;

#[tokio::test]
async fn an_administrator_can_set_block_owner_deletion() {
    let plane = plane_with(&["OwnerReferencesPermissionEnforcement"], &[]).await;
    let owner = plane.create(MAPS, &map("owner", &json!({}))).await;
    let mut owned = map("owned", &json!({}));
    owned["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap",
        "name": "owner", "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true}]);
    plane.create(MAPS, &owned).await;
    let none = json!({"metadata": {"ownerReferences": null}});
    plane.merge(&format!("{MAPS}/owned"), &none).await;
}
