//! Who may keep an owner from being deleted. Only members of `system:masters` may do anything so
//! far, and they may do this.

use super::plane_with;
use crate::objects::{MAPS, map};
use machinery::json;

#[tokio::test]
async fn who_may_do_everything_may_block_an_owner() {
    let plane = plane_with(&["OwnerReferencesPermissionEnforcement"], &[]).await;
    let owner = plane.create(MAPS, &map("owner", &json!({}))).await;
    let mut owned = map("owned", &json!({}));
    owned["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap",
        "name": "owner", "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true}]);
    plane.create(MAPS, &owned).await;
    let none = json!({"metadata": {"ownerReferences": null}});
    plane.merge(&format!("{MAPS}/owned"), &none).await;
}
