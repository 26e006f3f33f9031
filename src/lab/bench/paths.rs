//! Owns which path a request asks for: always the same, drawn, or each one once.
//!
//! Before it: a scenario says what is hot. After it: the load generators write the path into a request. Invariant: the
//! same seed draws the same paths in the same order.

use std::io::Write;

use fastrand::Rng;

/// Where the paths come from.
#[derive(Clone, Debug)]
pub enum Paths {
    /// Always this one.
    Fixed(String),
    /// `/v1/contexts/KEY/VIEW`, keys drawn.
    Drawn {
        /// Which keys are how hot.
        zipf: Zipf,
        /// The last segment; says how large the reply is.
        view: &'static str,
        /// The draw.
        rng: Rng,
    },
    /// `/v1/contexts/KEY/VIEW`, each key once, upwards.
    Each {
        /// The next key.
        next: u64,
        /// The last segment.
        view: &'static str,
    },
    /// Keys of a fill drawn evenly.
    Even {
        /// Keys from 0 to this.
        keys: u64,
        /// The last segment.
        view: &'static str,
        /// The draw.
        rng: Rng,
    },
}

impl Paths {
    /// Writes the next path.
    pub fn write(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Fixed(path) => out.extend_from_slice(path.as_bytes()),
            Self::Drawn { zipf, view, rng } => write_key(out, zipf.draw(rng) as u64, view),
            Self::Each { next, view } => {
                write_key(out, *next, view);
                *next += 1;
            }
            Self::Even { keys, view, rng } => write_key(out, rng.u64(..*keys), view),
        }
    }
}

/// The path of one key.
pub fn path(key: u64, view: &str) -> String {
    let mut out = Vec::new();
    write_key(&mut out, key, view);
    String::from_utf8_lossy(&out).into_owned()
}

fn write_key(out: &mut Vec<u8>, key: u64, view: &str) {
    // A Vec takes everything.
    let _ = write!(out, "/v1/contexts/k{key}/{view}");
}

/// Keys of which the k-th is asked for in proportion to 1/k.
#[derive(Clone, Debug)]
pub struct Zipf {
    /// How likely a key up to this one is.
    cumulative: Vec<f64>,
}

impl Zipf {
    /// Over so many keys, at least one.
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

    /// A key from 0, the hottest.
    pub fn draw(&self, rng: &mut Rng) -> usize {
        let at = rng.f64();
        self.cumulative.partition_point(|up_to| *up_to < at).min(self.cumulative.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_key_is_drawn_in_proportion_and_a_seed_draws_the_same_again() {
        let zipf = Zipf::new(10_000);
        let draw = |seed| {
            let mut rng = Rng::with_seed(seed);
            (0..100_000).map(|_| zipf.draw(&mut rng)).collect::<Vec<_>>()
        };
        let drawn = draw(7);
        let share = |key| drawn.iter().filter(|drawn| **drawn == key).count() as f64 / 1e5;
        // The sum of 1/k up to 10,000 is 9.7876.
        assert!((share(0) - 1.0 / 9.7876).abs() < 0.005, "{}", share(0));
        assert!((share(1) - 0.5 / 9.7876).abs() < 0.005, "{}", share(1));
        assert!(drawn.iter().all(|key| *key < 10_000) && drawn.iter().any(|key| *key > 9_000));
        assert_eq!(drawn, draw(7));
        assert_ne!(drawn, draw(8));
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
