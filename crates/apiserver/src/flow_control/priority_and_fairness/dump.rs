//! Dumps of the priority levels, their queues and their requests, as tables with kube-apiserver's
//! columns.
//!
//! Upstream: `util/flowcontrol/apf_controller_debug.go`

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::{PriorityAndFairness, PriorityLevel};
use crate::flow_control::level_requests::LevelRequest;
use crate::request::Query;
use machinery::timestamp;

/// The minimum width of a column, with the padding.
const MIN_WIDTH: usize = 8;

/// The columns of `dump_priority_levels`.
const LEVEL_COLUMNS: [&str; 10] = [
    "PriorityLevelName",
    "ActiveQueues",
    "IsIdle",
    "IsQuiescing",
    "WaitingRequests",
    "ExecutingRequests",
    "DispatchedRequests",
    "RejectedRequests",
    "TimedoutRequests",
    "CancelledRequests",
];

/// The columns of `dump_queues`.
const QUEUE_COLUMNS: [&str; 9] = [
    "PriorityLevelName",
    "Index",
    "PendingRequests",
    "ExecutingRequests",
    "SeatsInUse",
    "NextDispatchR",
    "InitialSeatsSum",
    "MaxSeatsSum",
    "TotalWorkSum",
];

/// The columns of `dump_requests`. Upstream: the spelling of the distinguisher.
const REQUEST_COLUMNS: [&str; 10] = [
    "PriorityLevelName",
    "FlowSchemaName",
    "QueueIndex",
    "RequestIndexInQueue",
    "FlowDistingsher",
    "ArriveTime",
    "InitialSeats",
    "FinalSeats",
    "AdditionalLatency",
    "StartTime",
];

/// The further columns of `dump_requests?includeRequestDetails=1`.
const DETAIL_COLUMNS: [&str; 8] =
    ["UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource"];

impl PriorityAndFairness {
    /// The dump of this name; None if there is no such dump. `now` is the current time in nanoseconds
    /// since 1970.
    pub(crate) fn dump(&self, name: &str, query: &Query, now: i64) -> Option<String> {
        let levels = self.configured.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match name {
            "dump_priority_levels" => Some(levels_table(&levels)),
            "dump_queues" => Some(self.queues_table(&levels)),
            "dump_requests" => Some(requests_table(&levels, query, now)),
            _ => None,
        }
    }

    fn queues_table(&self, levels: &BTreeMap<String, Arc<PriorityLevel>>) -> String {
        let mut rows = vec![QUEUE_COLUMNS.map(str::to_owned).to_vec()];
        for (name, level) in levels {
            let (Some(id), Some(queuing)) = (level.id, level.limits.queuing) else { continue };
            let mut by_queue: HashMap<u32, Vec<LevelRequest>> = HashMap::new();
            for request in level.requests.all() {
                by_queue.entry(request.queue.unwrap_or(u32::MAX)).or_default().push(request);
            }
            let next_starts = self.levels.next_starts(id);
            for queue in 0..queuing.queues {
                let requests = by_queue.remove(&queue).unwrap_or_default();
                let (executing, waiting): (Vec<_>, Vec<_>) = requests
                    .iter()
                    .map(|it| it.started.is_some())
                    .zip(&requests)
                    .partition(|(is_started, _)| *is_started);
                let sum = |of: fn(&LevelRequest) -> usize| -> usize {
                    waiting.iter().map(|(_, it)| of(it)).sum()
                };
                let in_use: usize = executing.iter().map(|(_, it)| it.estimate.max_seats()).sum();
                let work: f64 =
                    waiting.iter().map(|(_, it)| it.estimate.work(super::ESTIMATED_DURATION)).sum();
                rows.push(vec![
                    name.clone(),
                    queue.to_string(),
                    waiting.len().to_string(),
                    executing.len().to_string(),
                    in_use.to_string(),
                    seat_seconds(next_starts.get(&queue).copied().unwrap_or(0.0)),
                    sum(|it| it.estimate.seats).to_string(),
                    sum(|it| it.estimate.max_seats()).to_string(),
                    seat_seconds(work),
                ]);
            }
        }
        table(&rows)
    }
}

fn levels_table(levels: &BTreeMap<String, Arc<PriorityLevel>>) -> String {
    let mut rows = vec![LEVEL_COLUMNS.map(str::to_owned).to_vec()];
    for (name, level) in levels {
        let requests = level.requests.all();
        let waiting: Vec<_> = requests.iter().filter(|it| it.started.is_none()).collect();
        let active: BTreeSet<_> = waiting.iter().map(|it| it.queue).collect();
        let counts = level.requests.counts();
        rows.push(vec![
            name.clone(),
            active.len().to_string(),
            requests.is_empty().to_string(),
            // A level that was deleted is not shown.
            false.to_string(),
            waiting.len().to_string(),
            (requests.len() - waiting.len()).to_string(),
            counts.dispatched.to_string(),
            counts.rejected.to_string(),
            // Upstream: requests that wait too long count as cancelled.
            0.to_string(),
            counts.cancelled.to_string(),
        ]);
    }
    table(&rows)
}

fn requests_table(
    levels: &BTreeMap<String, Arc<PriorityLevel>>,
    query: &Query,
    now: i64,
) -> String {
    let has_details = !query.text("includeRequestDetails").is_empty();
    let columns =
        REQUEST_COLUMNS.iter().chain(has_details.then_some(&DETAIL_COLUMNS).into_iter().flatten());
    let mut rows = vec![columns.map(|it| (*it).to_owned()).collect::<Vec<_>>()];
    let instant = Instant::now();
    let time = |it: Instant| {
        let ago = instant.saturating_duration_since(it).as_nanos();
        rfc3339_nano(now - i64::try_from(ago).unwrap_or(0))
    };
    for (name, level) in levels {
        let mut positions: HashMap<Option<u32>, usize> = HashMap::new();
        for request in level.requests.all() {
            let position = if request.started.is_some() {
                "-1".to_owned()
            } else {
                let next = positions.entry(request.queue).or_default();
                *next += 1;
                (*next - 1).to_string()
            };
            let mut row = vec![
                name.clone(),
                request.schema.name.clone(),
                request.queue.map_or("-1".to_owned(), |it| it.to_string()),
                position,
                request.schema.spec.distinguisher(&request.user, &request.info).to_owned(),
                time(request.arrival),
                request.estimate.seats.to_string(),
                request.estimate.final_seats.to_string(),
                duration(request.estimate.additional_latency),
                request.started.map_or("0001-01-01T00:00:00Z".to_owned(), time),
            ];
            if has_details {
                row.extend(details(&request));
            }
            rows.push(row);
        }
    }
    table(&rows)
}

/// The user and the resource of a request.
fn details(request: &LevelRequest) -> [String; 8] {
    let path = request.info.resource.clone().unwrap_or_default();
    let verb = match &request.info.resource {
        Some(_) => request.info.verb.as_str(),
        None => &request.info.method,
    };
    let api_version = match &*path.group {
        "" => path.version,
        group => format!("{group}/{}", path.version),
    };
    [
        request.user.clone(),
        verb.to_owned(),
        request.info.path.clone(),
        path.namespace,
        path.name,
        api_version,
        path.resource,
        path.subresource,
    ]
}

/// An amount of work or of virtual time, as upstream writes it.
fn seat_seconds(amount: f64) -> String {
    format!("{amount:.8}ss")
}

/// A time as Go writes it in the format `RFC3339Nano`: without trailing zeros.
fn rfc3339_nano(nanos: i64) -> String {
    let (seconds, fraction) = (nanos.div_euclid(1_000_000_000), nanos.rem_euclid(1_000_000_000));
    let text = timestamp::format_seconds(seconds);
    if fraction == 0 {
        return text;
    }
    let fraction = format!("{fraction:09}");
    format!("{}.{}Z", text.trim_end_matches('Z'), fraction.trim_end_matches('0'))
}

/// A duration below a minute as Go writes it.
fn duration(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs_f64(), duration.as_secs_f64() * 1000.0);
    match duration {
        Duration::ZERO => "0s".to_owned(),
        it if it < Duration::from_secs(1) => format!("{millis}ms"),
        _ => format!("{seconds}s"),
    }
}

/// The rows with aligned columns. Upstream: the cells end with a comma and a tab, and a tab writer
/// aligns them.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let longest = rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        // The comma, and at least one space.
        (longest + 2).max(MIN_WIDTH)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            if column + 1 == columns {
                text.push_str(cell);
            } else {
                text.push_str(&format!("{:<1$}", format!("{cell},"), widths[column]));
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_as_by_a_tab_writer() {
        let rows = [["Name", "B", "C"], ["longer-name", "1", "2"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "Name,        B,      C\nlonger-name, 1,      2\n");
    }

    #[test]
    fn times_have_no_trailing_zeros() {
        assert_eq!(rfc3339_nano(1_700_000_000_000_000_000), "2023-11-14T22:13:20Z");
        assert_eq!(rfc3339_nano(1_700_000_000_012_000_000), "2023-11-14T22:13:20.012Z");
    }

    #[test]
    fn durations_are_written_as_in_go() {
        assert_eq!(duration(Duration::ZERO), "0s");
        assert_eq!(duration(Duration::from_micros(12_500)), "12.5ms");
        assert_eq!(duration(Duration::from_millis(1250)), "1.25s");
    }
}
