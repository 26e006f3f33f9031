//! Readers and a writer at work all the time: what is hot and changes, what nobody has read yet,
//! and reads past every cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;

use super::readers::Readers;
use super::stage::Lesson;

pub(super) const HOT: usize = 20;
const COLD: usize = 4_000;
const READERS: usize = 6;
/// Between two requests of a reader.
const PAUSE: Duration = Duration::from_millis(20);
/// Between two changes of what is hot.
const WRITE_EVERY: Duration = Duration::from_millis(50);
pub(super) const NO_CACHE: [(&str, &str); 1] = [("cache-control", "no-cache")];

pub(super) fn keys() -> impl Iterator<Item = String> {
    (0..HOT).map(hot).chain((0..COLD).map(|key| format!("cold-{key}")))
}

pub(super) fn hot(key: usize) -> String {
    format!("hot-{key}")
}

pub(super) struct Load {
    pub(super) readers: Arc<Readers>,
    over: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<Option<()>>>,
}

impl Load {
    pub(super) fn begin(stage: &Lesson, readers: Arc<Readers>) -> Self {
        let (over, cold) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (writer, is_over) = (stage.writer(), over.clone());
        let mut tasks = vec![stage.tasks.spawn("writer", async move {
            while !is_over.load(Ordering::Relaxed) {
                writer.write(&hot(fastrand::usize(..HOT))).await;
                tokio::time::sleep(WRITE_EVERY).await;
            }
        })];
        for _ in 0..READERS {
            let (readers, cold, is_over) = (readers.clone(), cold.clone(), over.clone());
            tasks.push(stage.tasks.spawn("reader", async move {
                while !is_over.load(Ordering::Relaxed) {
                    mix(&readers, &cold).await;
                    tokio::time::sleep(PAUSE).await;
                }
            }));
        }
        Self { readers, over, tasks }
    }

    pub(super) fn answered(&self) -> u64 {
        self.readers.answered.load(Ordering::Relaxed)
    }

    pub(super) async fn end(self) -> Arc<Readers> {
        self.over.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.unwrap();
        }
        self.readers
    }
}

async fn mix(readers: &Readers, cold: &AtomicUsize) {
    let hot = hot(fastrand::usize(..HOT));
    match fastrand::usize(..10) {
        0..=5 => readers.read(&hot, &[]).await,
        6..=7 => readers.read(&format!("cold-{}", cold.fetch_add(1, Ordering::Relaxed) % COLD), &[]).await,
        _ => readers.read(&hot, &NO_CACHE).await,
    };
}
