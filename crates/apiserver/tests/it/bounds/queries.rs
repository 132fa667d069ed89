//! Headers and queries.

use super::{Ask, check};
use crate::client::JSON;
use crate::plane::{MAPS, Plane, labeled};
use http::Method;

fn get(path: String) -> Ask {
    Ask::new(Method::GET, path, JSON, String::new())
}

#[tokio::test]
async fn selectors_with_many_requirements() {
    let plane = Plane::start().await;
    for n in 0..20 {
        plane.create(MAPS, &labeled(&format!("m{n}"), "a", "b")).await;
    }
    // A request's target has at most 64 KiB.
    let many = |n: usize, one: &str| {
        (0..n).map(|it| one.replace('N', &it.to_string())).collect::<String>()
    };
    check(&plane, 200, 1000, |n| get(format!("{MAPS}?labelSelector={}a%3Db", many(n, "!kN,"))))
        .await;
    check(&plane, 200, 1000, |n| {
        get(format!("{MAPS}?labelSelector=a%20in%20({}b)", many(n, "vN,")))
    })
    .await;
    check(&plane, 200, 500, |n| {
        get(format!("{MAPS}?fieldSelector={}metadata.name!%3Dx", many(n, "metadata.name!%3DN,")))
    })
    .await;
    check(&plane, 200, 2000, |n| get(format!("{MAPS}?{}", many(n, "pN=v&")))).await;
}

#[tokio::test]
async fn an_accept_header_with_many_clauses() {
    let plane = Plane::start().await;
    let clauses = |n: usize| (0..n).map(|it| format!("a/b{it};q=0.{it},")).collect::<String>();
    for n in [1000, 4000] {
        let client = plane.as_user(apiserver::authentication::User::default());
        let client = client.with("accept", &(clauses(n) + "application/json"));
        check(&client, 403, 8, |_| get(MAPS.to_owned())).await;
    }
}
