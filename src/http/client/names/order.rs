//! Asks in order of preference without waiting for those who are silent: each gets a head start
//! over the next. The two families of addresses are asked for side by side.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::http::limits::{IPV4_WAIT, OTHER_FAMILY_WAIT};

/// The outcome of asking for a name.
#[derive(Debug)]
pub(super) enum Found {
    Addresses(Vec<IpAddr>),
    /// A name server said that there is none.
    Absent,
    /// Nobody who was asked could say.
    Failed(io::Error),
}

/// Meaning of an absence for later requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absence {
    /// The answer, once nobody before can contradict it: name servers.
    Ends,
    /// The next one's turn: search suffixes.
    Continues,
}

/// Begins each ask when the one before ends without addresses, or is silent for `head_start`. The
/// first addresses are the answer.
pub(super) async fn in_order<F: Future<Output = Found>>(
    asks: impl IntoIterator<Item = F>,
    head_start: Duration,
    absence: Absence,
) -> Found {
    let mut asks = asks.into_iter().peekable();
    let mut running = FuturesUnordered::new();
    let mut outcomes: Vec<Option<Found>> = Vec::new();
    loop {
        if let Some(ask) = asks.next() {
            let index = outcomes.len();
            outcomes.push(None);
            running.push(async move { (index, ask.await) });
        } else if running.is_empty() {
            return last_word(outcomes);
        }
        let wait = if asks.peek().is_some() { head_start } else { Duration::MAX };
        match tokio::time::timeout(wait, running.next()).await {
            Err(_) | Ok(None) => {}
            Ok(Some((_, found @ Found::Addresses(_)))) => return found,
            Ok(Some((index, found))) => {
                outcomes[index] = Some(found);
                let first = outcomes.iter().find(|outcome| !matches!(outcome, Some(Found::Failed(_))));
                if absence == Absence::Ends && matches!(first, Some(Some(Found::Absent))) {
                    return Found::Absent;
                }
            }
        }
    }
}

/// The addresses of whichever family is found first, and those of the other if they come soon: within
/// [`OTHER_FAMILY_WAIT`] if they are of IPv6 (RFC 8305, 3), within [`IPV4_WAIT`] if they are of IPv4.
/// The asker cannot be given more later, and a network may carry IPv4 alone.
pub(super) async fn side_by_side(
    v4: impl Future<Output = Found> + Unpin,
    v6: impl Future<Output = Found> + Unpin,
) -> Found {
    match select(v4, v6).await {
        Either::Left((first, v6)) => joined(first, v6, OTHER_FAMILY_WAIT).await,
        Either::Right((first, v4)) => joined(first, v4, IPV4_WAIT).await,
    }
}

/// Without addresses in the first family the second has all the time that it takes.
async fn joined(first: Found, other: impl Future<Output = Found>, wait: Duration) -> Found {
    if let Found::Addresses(mut addresses) = first {
        if let Ok(Found::Addresses(more)) = tokio::time::timeout(wait, other).await {
            addresses.extend(more);
        }
        return Found::Addresses(addresses);
    }
    match (first, other.await) {
        (_, found @ Found::Addresses(_)) => found,
        (failed @ Found::Failed(_), _) | (_, failed) => failed,
    }
}

/// Absent if all said so; otherwise the first failure.
fn last_word(outcomes: Vec<Option<Found>>) -> Found {
    let failed = outcomes.into_iter().flatten().find(|outcome| matches!(outcome, Found::Failed(_)));
    failed.unwrap_or(Found::Absent)
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    const HEAD_START: Duration = Duration::from_secs(1);

    /// After so many milliseconds: an address by its last number, 0 for an absence, `None` for a
    /// failure.
    async fn after(wait_ms: u64, found: Option<u8>) -> Found {
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        match found {
            None => Found::Failed(io::ErrorKind::TimedOut.into()),
            Some(0) => Found::Absent,
            Some(last) => Found::Addresses(vec![[127, 0, 0, last].into()]),
        }
    }

    /// Who won, and after how many milliseconds.
    async fn outcome(asks: &[(u64, Option<u8>)], absence: Absence) -> (Option<u8>, u128) {
        let began = Instant::now();
        let asks: Vec<_> = asks.iter().map(|(wait, found)| after(*wait, *found)).collect();
        let found = match in_order(asks, HEAD_START, absence).await {
            Found::Failed(_) => None,
            Found::Absent => Some(0),
            Found::Addresses(found) => match found[0] {
                IpAddr::V4(address) => Some(address.octets()[3]),
                IpAddr::V6(_) => panic!("none was given"),
            },
        };
        (found, began.elapsed().as_millis())
    }

    /// Which last numbers were found, and after how many milliseconds.
    async fn together(v4: (u64, Option<u8>), v6: (u64, Option<u8>)) -> (Option<Vec<u8>>, u128) {
        let began = Instant::now();
        let found = side_by_side(Box::pin(after(v4.0, v4.1)), Box::pin(after(v6.0, v6.1))).await;
        let found = match found {
            Found::Failed(_) => None,
            Found::Absent => Some(Vec::new()),
            Found::Addresses(found) => Some(
                found
                    .into_iter()
                    .map(|address| match address {
                        IpAddr::V4(address) => address.octets()[3],
                        IpAddr::V6(_) => panic!("none was given"),
                    })
                    .collect(),
            ),
        };
        (found, began.elapsed().as_millis())
    }

    #[tokio::test(start_paused = true)]
    async fn kept_ipv6_addresses_wait_for_ipv4() {
        // Kept from before, while the others have to be asked for.
        assert_eq!(together((300, Some(4)), (0, Some(6))).await, (Some(vec![6, 4]), 300));
        assert_eq!(together((60_000, None), (0, Some(6))).await, (Some(vec![6]), 1000));
        assert_eq!(together((20, None), (0, Some(6))).await, (Some(vec![6]), 20));
        assert_eq!(together((20, Some(0)), (0, Some(6))).await, (Some(vec![6]), 20));
        // IPv6 alone is waited for no longer than a resolution takes.
        assert_eq!(together((0, Some(4)), (30, Some(6))).await, (Some(vec![4, 6]), 30));
        assert_eq!(together((0, Some(4)), (60_000, None)).await, (Some(vec![4]), 50));
        assert_eq!(together((0, Some(0)), (2000, Some(6))).await, (Some(vec![6]), 2000));
        assert_eq!(together((0, None), (20, Some(0))).await, (None, 20));
        assert_eq!(together((0, Some(0)), (20, Some(0))).await, (Some(vec![]), 20));
    }

    #[tokio::test(start_paused = true)]
    async fn silent_server_costs_only_head_start() {
        for absence in [Absence::Ends, Absence::Continues] {
            let silent = (60_000, None);
            assert_eq!(outcome(&[silent, (5, Some(2))], absence).await, (Some(2), 1005));
            assert_eq!(outcome(&[silent, silent, (5, Some(3))], absence).await, (Some(3), 2005));
            assert_eq!(outcome(&[(900, Some(1)), (5, Some(2))], absence).await, (Some(1), 900), "it has its start");
            assert_eq!(outcome(&[(1500, Some(1)), silent], absence).await, (Some(1), 1500), "late is not never");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failure_starts_next_attempt_at_once() {
        for absence in [Absence::Ends, Absence::Continues] {
            assert_eq!(outcome(&[(5, None), (5, Some(2))], absence).await, (Some(2), 10));
            assert_eq!(outcome(&[(5, None), (5, None)], absence).await, (None, 10));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn absence_ends_servers_continues_suffixes() {
        let absent = (5, Some(0));
        assert_eq!(outcome(&[absent, (5, Some(2))], Absence::Ends).await, (Some(0), 5));
        assert_eq!(outcome(&[absent, (5, Some(2))], Absence::Continues).await, (Some(2), 10));
        assert_eq!(outcome(&[absent, (5, None)], Absence::Continues).await, (None, 10), "it may be there");
        // A public server knows nothing of what the slower one before it has.
        assert_eq!(outcome(&[(1500, Some(1)), absent], Absence::Ends).await, (Some(1), 1500));
        assert_eq!(outcome(&[(1500, None), absent], Absence::Ends).await, (Some(0), 1500));
    }
}
