//! Headers and queries.

use super::{Ask, check};
use crate::client::JSON;
use crate::plane::{MAPS, Plane, labeled};
use apiserver::authentication::User;
use http::Method;
use std::fmt::Write;

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
    let mut clauses = String::new();
    let mut spent = Vec::new();
    for n in 0..4000 {
        write!(clauses, "a/b{n};q=0.{n},").unwrap();
        if n == 999 || n == 3999 {
            let client = plane.as_user(User::default());
            let client = client.with("accept", &format!("{clauses}application/json"));
            spent.push(super::spent(&client, 403, &get(MAPS.to_owned())).await);
        }
    }
    assert!(spent[1] <= spent[0] * super::FACTOR + super::TICKS, "{spent:?}");
}
