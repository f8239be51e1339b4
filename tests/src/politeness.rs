//! Whether visitors were polite, judged from the visitor log alone.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::fake_web::Visit;

/// How much earlier than allowed a request may arrive: what scheduling and loopback can shift between a request's
/// start at the worker and its arrival here.
pub const TOLERANCE: Duration = Duration::from_millis(20);

/// Every breach of the promise that one host has at most one request in flight and `interval` between two starts.
pub fn violations(visits: &[Visit], interval: Duration) -> Vec<String> {
    let mut hosts: BTreeMap<&str, Vec<&Visit>> = BTreeMap::new();
    for visit in visits {
        hosts.entry(&visit.host).or_default().push(visit);
    }
    let least = interval.saturating_sub(TOLERANCE);
    let mut found = Vec::new();
    for (host, mut visits) in hosts {
        visits.sort_by_key(|visit| visit.start);
        for pair in visits.windows(2) {
            let [earlier, later] = pair else { continue };
            let gap = Duration::from_micros(later.start - earlier.start);
            if gap < least {
                found.push(format!(
                    "{host}: {} came {gap:?} after {}, the interval is {interval:?}",
                    later.path, earlier.path
                ));
            }
            if earlier.end.is_none_or(|end| later.start < end) {
                found.push(format!(
                    "{host}: {} came while {} was being answered",
                    later.path, earlier.path
                ));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::violations;
    use crate::fake_web::Visit;

    fn visit(host: &str, start: u64, end: u64) -> Visit {
        Visit {
            host: host.to_owned(),
            path: format!("/{start}"),
            start,
            end: Some(end),
            status: 200,
            agent: String::new(),
            connection: 0,
        }
    }

    #[test]
    fn a_gap_that_is_too_short_and_an_overlap_are_found() {
        let interval = Duration::from_millis(200);
        let polite = [
            visit("a", 0, 5),
            visit("b", 10, 15),
            visit("a", 185_000, 190_000),
        ];
        assert!(
            violations(&polite, interval).is_empty(),
            "15 ms early is within the tolerance"
        );
        let quick = [visit("a", 0, 5), visit("a", 100_000, 100_005)];
        assert_eq!(violations(&quick, interval).len(), 1);
        let twice = [visit("a", 0, 300_000), visit("a", 250_000, 260_000)];
        assert_eq!(violations(&twice, interval).len(), 1);
    }
}
