//! Between a region's topic and its nodes' queues: what is published arrives late, twice, in
//! another order, or never.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use nearside::model::time::Wall;

use super::plan::{between, seconds};

/// Longest delay of a late delivery.
const LATEST: Duration = seconds(20);

/// A message as a queue brings it.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) message: String,
    pub(crate) published: Wall,
    pub(crate) id: String,
}

/// Probability of each fault, from 0 to 1.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeliveryRates {
    pub(crate) late: f64,
    pub(crate) repeats: f64,
    pub(crate) loses: f64,
}

/// A node's queue, which outlives the node and is emptied with it.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    changed: Notify,
}

#[derive(Default)]
struct QueueState {
    is_subscribed: bool,
    /// Messages by time of arrival.
    messages: BTreeMap<(Instant, u64), Delivery>,
    arrivals: u64,
}

impl Queue {
    fn locked(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().expect("a few plain stores")
    }

    pub(crate) fn subscribe(&self) {
        self.locked().is_subscribed = true;
    }

    pub(crate) fn remove(&self) {
        let mut state = self.locked();
        state.is_subscribed = false;
        state.messages.clear();
    }

    /// Waits for the next message.
    pub(crate) async fn next(&self) -> Delivery {
        loop {
            let changed = self.changed.notified();
            let first = {
                let mut state = self.locked();
                match state.messages.first_entry() {
                    Some(entry) if entry.key().0 <= Instant::now() => return entry.remove(),
                    Some(entry) => Some(entry.key().0),
                    None => None,
                }
            };
            let due = async {
                match first {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = due => {}
                () = changed => {}
            }
        }
    }

    fn deliver(&self, delivery: &Delivery, rates: DeliveryRates) {
        let mut state = self.locked();
        if !state.is_subscribed || fastrand::f64() < rates.loses {
            return;
        }
        for _ in 0..if fastrand::f64() < rates.repeats { 2 } else { 1 } {
            let usual = between(Duration::from_millis(5), Duration::from_millis(150));
            let late = if fastrand::f64() < rates.late { between(Duration::ZERO, LATEST) } else { Duration::ZERO };
            let place = (Instant::now() + usual + late, state.arrivals);
            state.arrivals += 1;
            state.messages.insert(place, delivery.clone());
        }
        drop(state);
        self.changed.notify_waiters();
    }
}

/// A region's topic as its nodes subscribe to it.
#[derive(Default)]
pub(crate) struct Deliveries {
    queues: [Arc<Queue>; 2],
    rates: Mutex<DeliveryRates>,
    published: Mutex<u64>,
}

impl Deliveries {
    pub(crate) fn queue(&self, node: usize) -> Arc<Queue> {
        self.queues[node].clone()
    }

    pub(crate) fn set(&self, rates: DeliveryRates) {
        *self.rates.lock().expect("a plain store") = rates;
    }

    pub(crate) fn publish(&self, message: &str, published: Wall) {
        let mut number = self.published.lock().expect("a plain store");
        *number += 1;
        let delivery = Delivery { message: message.to_owned(), published, id: number.to_string() };
        let rates = *self.rates.lock().expect("a plain store");
        self.queues.iter().for_each(|queue| queue.deliver(&delivery, rates));
    }
}
