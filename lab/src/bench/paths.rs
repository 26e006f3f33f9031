//! Which path a request asks for: always the same, drawn at random, or each one once. The same seed
//! draws the same paths in the same order.

use std::io::Write;

use fastrand::Rng;

/// Source of the paths.
#[derive(Clone, Debug)]
pub enum Paths {
    Fixed(String),
    /// `/v1/contexts/KEY/VIEW` with drawn keys.
    Drawn {
        /// Distribution of the requests over the keys.
        zipf: Zipf,
        /// The last segment, which sets the size of the reply.
        view: &'static str,
        rng: Rng,
    },
    /// `/v1/contexts/KEY/VIEW` with each key once, in ascending order.
    Each {
        next: u64,
        view: &'static str,
    },
    /// The keys of an earlier fill, drawn evenly.
    Even {
        /// Keys are drawn from 0 up to, but not including, this one.
        keys: u64,
        view: &'static str,
        rng: Rng,
    },
    /// Zipf as well, but now and then a key that nobody has asked for before.
    Mixed {
        /// Keys are drawn from 0 up to, but not including, this one.
        keys: u64,
        /// Share of new keys, from 0 to 1.
        new: f64,
        /// The next new key.
        next: u64,
        view: &'static str,
        rng: Rng,
    },
}

impl Paths {
    pub fn write(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Fixed(path) => out.extend_from_slice(path.as_bytes()),
            Self::Drawn { zipf, view, rng } => write_key(out, zipf.draw(rng) as u64, view),
            Self::Each { next, view } => {
                write_key(out, *next, view);
                *next += 1;
            }
            Self::Even { keys, view, rng } => write_key(out, rng.u64(..*keys), view),
            Self::Mixed { keys, new, next, view, rng } => {
                let is_new = rng.f64() < *new;
                write_key(out, if is_new { *next } else { rng.u64(..*keys) }, view);
                *next += u64::from(is_new);
            }
        }
    }
}

pub fn path(key: u64, view: &str) -> String {
    let mut out = Vec::new();
    write_key(&mut out, key, view);
    String::from_utf8_lossy(&out).into_owned()
}

fn write_key(out: &mut Vec<u8>, key: u64, view: &str) {
    // Writing to a Vec cannot fail.
    let _ = write!(out, "/v1/contexts/k{key}/{view}");
}

/// Keys of which the k-th is asked for in proportion to 1/k.
#[derive(Clone, Debug)]
pub struct Zipf {
    /// For each key, the probability of drawing it or a hotter one.
    cumulative: Vec<f64>,
}

impl Zipf {
    /// Over this many keys, at least one.
    pub fn new(keys: usize) -> Self {
        let mut sum = 0.0;
        let mut cumulative: Vec<f64> = (1..=keys.max(1))
            .map(|rank| {
                sum += 1.0 / rank as f64;
                sum
            })
            .collect();
        cumulative.iter_mut().for_each(|up_to| *up_to /= sum);
        Self { cumulative }
    }

    /// Draws a key; 0 is the hottest.
    pub fn draw(&self, rng: &mut Rng) -> usize {
        let at = rng.f64();
        self.cumulative.partition_point(|up_to| *up_to < at).min(self.cumulative.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_draw_is_proportional_and_seeded() {
        let zipf = Zipf::new(10_000);
        let drawn = draw(&zipf, 7);
        // The sum of 1/k up to 10,000 is 9.7876.
        for (key, wanted) in [(0, 1.0 / 9.7876), (1, 0.5 / 9.7876)] {
            let share = drawn.iter().filter(|drawn| **drawn == key).count() as f64 / 1e5;
            assert!((share - wanted).abs() < 0.005, "{share}");
        }
        assert!(drawn.iter().all(|key| *key < 10_000) && drawn.iter().any(|key| *key > 9_000));
        assert_eq!(drawn, draw(&zipf, 7));
        assert_ne!(drawn, draw(&zipf, 8));
    }

    fn draw(zipf: &Zipf, seed: u64) -> Vec<usize> {
        let mut rng = Rng::with_seed(seed);
        (0..100_000).map(|_| zipf.draw(&mut rng)).collect()
    }

    /// Number of the key in the next path.
    fn next_key(paths: &mut Paths) -> u64 {
        let mut out = Vec::new();
        paths.write(&mut out);
        let path = String::from_utf8(out).unwrap();
        path.split('/').nth(3).unwrap()[1..].parse().unwrap()
    }

    #[test]
    fn one_percent_are_new_unrepeated_keys() {
        let mut paths = Paths::Mixed { keys: 10, new: 0.01, next: 1_000, view: "1k", rng: Rng::with_seed(7) };
        let all: Vec<_> = (0..20_000).map(|_| next_key(&mut paths)).collect();
        let new: Vec<_> = all.iter().copied().filter(|key| *key >= 10).collect();
        assert!((150..250).contains(&new.len()), "{}", new.len());
        assert_eq!(new, (1_000..1_000 + new.len() as u64).collect::<Vec<_>>());
    }

    #[test]
    fn each_key_is_asked_for_once() {
        let mut paths = Paths::Each { next: 9, view: "1k" };
        let mut out = Vec::new();
        paths.write(&mut out);
        paths.write(&mut out);
        assert_eq!(out, b"/v1/contexts/k9/1k/v1/contexts/k10/1k");
        assert_eq!(path(9, "1k"), "/v1/contexts/k9/1k");
    }
}
