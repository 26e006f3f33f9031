//! Owns who asks the sidecar for something: readers, and callers who write.
//!
//! A reader that must wait does so in a task of its own; its answer is judged when it comes.

use std::pin::Pin;
use std::time::Duration;

use super::super::answer::Answer;
use super::super::check::{Floor, OwnWrite};
use super::super::manner::Manner;
use super::super::plan::Read;
use super::super::subject::{Asked, REGION_NAMES};
use super::super::world::World;
use super::{Happening, Run, lock};

impl Run {
    /// A reader: answered at once by a hit, later by a fill.
    pub(super) async fn read(&mut self, read: Read, last: bool) {
        let (world, shared) = (self.world.clone(), self.shared.clone());
        let began = world.elapsed();
        let large = world.plan.is_large(read.key);
        if large && std::mem::replace(&mut lock(&shared).waits_for_large, true) {
            // Those who wait for one fill are woken in any order, and of what is too large each
            // then asks for himself.
            let again = if last { Happening::LastRead(read) } else { Happening::Read(read) };
            return self.at(began + Duration::from_millis(40), again);
        }
        let manner = Manner::of(&world.plan, read);
        let floors: Vec<(usize, Floor)> = {
            let known = &lock(&shared).checker.known;
            manner.keys.iter().map(|key| (*key, known.floor(*key))).collect()
        };
        let tell = Box::new(move |Asked { read, got: (status, line, seen), waited }: Asked| {
            let mut before = floors.iter().filter(|_| waited);
            let before = before.find(|(key, _)| *key == read.key).map(|(_, floor)| *floor);
            let (shape, batch, ended) = (manner.shape, manner.keys.len(), world.elapsed());
            let answer = Answer { read, shape, batch, began, ended, status, line, seen, before };
            let mut shared = lock(&shared);
            shared.checker.answered(&world, &answer);
            if last {
                shared.checker.rested(&world, &answer);
            }
            shared.trace = shared.trace.wrapping_add(imprint(&answer));
            shared.waits_for_large &= !large;
            drop(shared);
            tell_of(&world, &answer);
        });
        let asking = self.subject.ask(&self.world, read, tell);
        self.answering("reader", asking).await;
    }

    /// A caller writes: answered once a region has.
    pub(super) async fn put(&mut self, number: usize) {
        let (world, shared) = (self.world.clone(), self.shared.clone());
        let Some(writing) = self.subject.put(&world, number) else { return };
        let answering = async move {
            let (status, line, _) = writing.await;
            let put = world.plan.puts[number];
            let write = world.plan.truth.writes[put.write];
            world.tell(&[write.key], || {
                let stated = if put.states { format!("v{}", write.version) } else { "no version".to_owned() };
                format!("who wrote position {} through the sidecar gets {status} with {stated}", write.position)
            });
            let answered = world.elapsed();
            let region = REGION_NAMES.iter().position(|name| line.ends_with(&format!("detail={name}")));
            let own = OwnWrite { position: write.position, made: write.at, answered, states: put.states, region };
            // It was done, though nobody could say so: it counts as taken where it was sent (R20).
            let lost = world.noticed().lost.get(&number).map(|region| OwnWrite {
                states: false,
                region: Some(*region),
                ..own
            });
            let own = lost.or_else(|| (200..300).contains(&status).then_some(own));
            lock(&shared).checker.known.wrote(write.key, answered, own);
        };
        self.answering("writer", Box::pin(answering)).await;
    }

    async fn answering(&self, who: &'static str, mut answering: Pin<Box<dyn Future<Output = ()> + Send>>) {
        if futures_util::poll!(&mut answering).is_pending() {
            self.subject.tasks().spawn(who, answering);
        }
    }
}

fn tell_of(world: &World, answer: &Answer) {
    let read = answer.read;
    world.tell(&[read.key], || {
        let shown = answer.seen.as_ref().map(|seen| &seen.shown);
        format!(
            "a reader of view {} ({:?}, {} keys) since {:.3} gets {}: {shown:?} [{}]",
            read.view,
            answer.shape,
            answer.batch.max(1),
            answer.began.as_secs_f64(),
            answer.status,
            answer.line
        )
    });
}

/// A number for what a reader got and when. Readers of one moment are answered in no particular
/// order, so that imprints are only ever summed.
fn imprint(answer: &Answer) -> u64 {
    let mut seen = mix(answer.ended.as_nanos() as u64, answer.began.as_nanos() as u64);
    seen = mix(seen, u64::from(answer.status) << 32 | answer.read.key as u64);
    for (key, position) in answer.seen.iter().flat_map(|seen| &seen.shown) {
        seen = mix(seen, (key * 100_000 + position) as u64);
    }
    answer.line.bytes().fold(seen, |seen, byte| mix(seen, u64::from(byte)))
}

const fn mix(seen: u64, part: u64) -> u64 {
    (seen ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
}
