//! A region's table for the harness's nodes: it has every key, at version 5, with a body as long as
//! the view's name says. It answers at once, or as tables do on a bad day.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt, ready};
use nearside::engine::faulty::{FaultRates, Faults, Faulty};
use nearside::engine::{EngineError, Item, ItemKey, ItemWrite, Page, ScanSegment, Table, Tables, WriteError, bucket};

use crate::bench::regions::body_bytes;

/// The share of reads that a bad day's table fails.
pub(crate) const FAILS: f64 = 0.001;
/// Time of a read of it, and the share of slow ones with what those take at least.
const TAKES: Duration = Duration::from_millis(2);
const SLOW: (f64, Duration) = (0.01, Duration::from_millis(10));
/// A slow read is ten times slower than that at most.
const SLOWEST: f64 = 10.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableDay {
    /// Every read is answered at once.
    Good,
    /// A read takes 2 ms, one in a hundred 10 to 100 ms; one in a thousand fails.
    Bad,
}

impl TableDay {
    /// Parses an argument.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let known = [Self::Good, Self::Bad].into_iter().find(|day| day.to_string() == text);
        known.ok_or_else(|| format!("{text:?} is no day; write good or bad"))
    }

    /// Time of a read, by two numbers that are drawn evenly from 0 to 1. Slow ones have a heavy
    /// tail (Pareto, shape 1.5).
    fn wait(self, which: f64, how: f64) -> Duration {
        match self {
            Self::Good => Duration::ZERO,
            Self::Bad if which >= SLOW.0 => TAKES,
            Self::Bad => SLOW.1.mul_f64((1.0 - how).powf(-1.0 / 1.5).min(SLOWEST)),
        }
    }

    pub(crate) fn tables(self) -> Faulty<EveryKey> {
        let faults = Faults::default();
        if self == Self::Bad {
            faults.set(FaultRates { fails: FAILS, ..FaultRates::default() });
        }
        Faulty::new(EveryKey { day: self }, faults)
    }
}

impl fmt::Display for TableDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Good => "good",
            Self::Bad => "bad",
        })
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct EveryKey {
    day: TableDay,
}

impl Tables for EveryKey {
    fn get<'a>(&'a self, _: Table, key: &'a ItemKey) -> BoxFuture<'a, Result<Option<Item>, EngineError>> {
        async move {
            let wait = self.day.wait(fastrand::f64(), fastrand::f64());
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            let bytes = body_bytes(bucket::name_of(&key.partition).unwrap_or_default());
            Ok(Some(Item::new(key.clone(), 5).with_body(Bytes::from(vec![b'x'; bytes]))))
        }
        .boxed()
    }

    fn write(&self, _: Vec<ItemWrite>) -> BoxFuture<'_, Result<(), WriteError>> {
        ready(Err(only_read().into())).boxed()
    }

    fn query<'a>(
        &'a self,
        _: Table,
        _: &'a str,
        _: Option<&'a str>,
        _: usize,
    ) -> BoxFuture<'a, Result<Page, EngineError>> {
        ready(Err(only_read())).boxed()
    }

    fn last<'a>(&'a self, _: Table, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<Option<Item>, EngineError>> {
        ready(Err(only_read())).boxed()
    }

    fn scan(
        &self,
        _: Table,
        _: ScanSegment,
        _: Option<ItemKey>,
        _: usize,
    ) -> BoxFuture<'_, Result<Page, EngineError>> {
        ready(Err(only_read())).boxed()
    }
}

fn only_read() -> EngineError {
    EngineError::Refused { what: "the harness's table".to_owned(), why: "nodes read single items".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_day_slows_one_percent_reads() {
        assert_eq!(TableDay::Good.wait(0.0, 1.0), Duration::ZERO);
        assert_eq!([0.01, 0.5, 1.0].map(|which| TableDay::Bad.wait(which, 0.9)), [TAKES; 3]);
        let slow = [0.0, 0.5, 1.0].map(|how| TableDay::Bad.wait(0.0099, how));
        assert_eq!((slow[0], slow[2]), (Duration::from_millis(10), Duration::from_millis(100)));
        assert!(slow[0] < slow[1] && slow[1] < slow[2], "{slow:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn every_key_exists_some_reads_fail() {
        fastrand::seed(1);
        let (tables, mut failed) = (TableDay::Bad.tables(), 0);
        for number in 0..10_000 {
            let key = format!("k{number}");
            let key = ItemKey::new(bucket::partition("1k", &key), key);
            match tables.get(Table::Contexts, &key).await {
                Ok(item) => assert_eq!(item.unwrap().body.unwrap().len(), 1024),
                Err(_) => failed += 1,
            }
        }
        assert!((2..30).contains(&failed), "{failed}");
    }

    #[test]
    fn day_round_trips_as_text() {
        for day in [TableDay::Good, TableDay::Bad] {
            assert_eq!(TableDay::parse(&day.to_string()), Ok(day));
        }
        assert!(TableDay::parse("fine").is_err());
    }
}
