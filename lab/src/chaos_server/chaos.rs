//! Faults to order: a region's [`Mode`], its lag and latency, a topic's [`Delivery`], and the words
//! with which a person orders them. [`super::ChaosServer`] and the emulator's topics
//! ([`crate::aws::topic`]) carry them out. Any order that parses can be carried out; the error for
//! one that does not says what to write instead.

use std::time::Duration;

use http::StatusCode;

/// A kind of answer; its display is a stable word, for output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum Mode {
    #[default]
    Healthy,
    /// Refuses connections, and resets the ones that it has.
    Off,
    /// Answers this much later.
    Slow(Duration),
    Status(StatusCode),
    /// Sends its bodies at a byte a second.
    Drip,
    /// Announces the length of the whole body, sends half of it, and closes.
    Truncate,
    /// Sends bytes that are not HTTP.
    Garbage,
    /// Sends a body that never ends.
    Endless,
    /// Accepts requests and never answers.
    Silent,
}

/// Latency of a region: `base` plus or minus up to `jitter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    pub base: Duration,
    /// The largest deviation in either direction.
    pub jitter: Duration,
}

impl Latency {
    /// `base` and `jitter` in milliseconds.
    pub const fn millis(base: u64, jitter: u64) -> Self {
        Self { base: Duration::from_millis(base), jitter: Duration::from_millis(jitter) }
    }

    /// The latency for `dice`, a random number in 0..1.
    pub fn draw(self, dice: f64) -> Duration {
        let floor = self.base.saturating_sub(self.jitter);
        floor + (self.base + self.jitter - floor).mul_f64(dice)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// Messages are lost without a trace.
    pub mute: bool,
    /// Messages arrive this much later.
    pub delay: Duration,
    /// Every message arrives twice.
    pub duplicate: bool,
}

impl Delivery {
    /// Carries out the part of `order` that concerns the topic.
    pub fn obey(&mut self, order: ChaosOrder) {
        match order {
            ChaosOrder::Mute(mute) => self.mute = mute,
            ChaosOrder::Delay(delay) => self.delay = delay,
            ChaosOrder::Duplicate(duplicate) => self.duplicate = duplicate,
            ChaosOrder::Reset => *self = Self::default(),
            ChaosOrder::Mode(_) | ChaosOrder::Lag(_) | ChaosOrder::Latency(_) => {}
        }
    }
}

/// Order of a person for a region or its topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChaosOrder {
    Mode(Mode),
    /// Ingest the catalogue's changes this late.
    Lag(Duration),
    /// Answer within this time.
    Latency(Latency),
    /// Lose messages, or stop losing them.
    Mute(bool),
    /// Deliver messages this late.
    Delay(Duration),
    /// Deliver messages twice, or stop doing so.
    Duplicate(bool),
    /// Restore everything to how it was at the start.
    Reset,
}

/// Why an order makes no sense. The fault is the caller's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misread {
    #[error("unknown order {word:?}; write one of: {}", ChaosOrder::USAGE)]
    Word { word: String },
    /// The order needs another argument.
    #[error("{word} takes {takes}")]
    Argument { word: String, takes: &'static str },
}

const SPAN: &str = "a duration of at most 24h, for example 500ms or 5s";

impl ChaosOrder {
    /// Every order, for usage lines.
    pub const USAGE: &'static str = "healthy, off, slow 5s, status 503, drip, truncate, garbage, endless, silent, \
        lag 3s, latency 20ms 5ms, mute on|off, delay 2s, duplicate on|off, reset";

    /// Parses the words of an order: `slow 5s`, `latency 20ms 5ms`, `mute on`.
    pub fn parse(words: &[&str]) -> Result<Self, Misread> {
        let (word, rest) = words.split_first().unwrap_or((&"", &[]));
        let order = match *word {
            "healthy" | "on" => plain(rest, Self::Mode(Mode::Healthy)),
            "off" => plain(rest, Self::Mode(Mode::Off)),
            "drip" => plain(rest, Self::Mode(Mode::Drip)),
            "truncate" => plain(rest, Self::Mode(Mode::Truncate)),
            "garbage" => plain(rest, Self::Mode(Mode::Garbage)),
            "endless" => plain(rest, Self::Mode(Mode::Endless)),
            "silent" => plain(rest, Self::Mode(Mode::Silent)),
            "reset" => plain(rest, Self::Reset),
            "slow" => span(rest).map(|span| Self::Mode(Mode::Slow(span))),
            "lag" => span(rest).map(Self::Lag),
            "delay" => span(rest).map(Self::Delay),
            "mute" => switch(rest).map(Self::Mute),
            "duplicate" => switch(rest).map(Self::Duplicate),
            "status" => status(rest).map(|status| Self::Mode(Mode::Status(status))).ok_or("a status from 200 to 599"),
            "latency" => latency(rest).map(Self::Latency).ok_or("one or two durations, for example 20ms 5ms"),
            _ => return Err(Misread::Word { word: (*word).to_owned() }),
        };
        order.map_err(|takes| Misread::Argument { word: (*word).to_owned(), takes })
    }
}

/// An order without arguments; an error here and below is what the word takes.
fn plain(words: &[&str], order: ChaosOrder) -> Result<ChaosOrder, &'static str> {
    if words.is_empty() { Ok(order) } else { Err("nothing") }
}

fn span(words: &[&str]) -> Result<Duration, &'static str> {
    let [text] = words else { return Err(SPAN) };
    duration(text).ok_or(SPAN)
}

fn switch(words: &[&str]) -> Result<bool, &'static str> {
    match words {
        [] | ["on"] => Ok(true),
        ["off"] => Ok(false),
        _ => Err("on or off"),
    }
}

fn duration(text: &str) -> Option<Duration> {
    humantime::parse_duration(text).ok().filter(|span| *span <= Duration::from_secs(86_400))
}

fn status(words: &[&str]) -> Option<StatusCode> {
    let [text] = words else { return None };
    let number: u16 = text.parse().ok()?;
    // 1xx, 204 and 304 are not final replies with a body, so a failing region does not send them.
    let plain = (200..600).contains(&number) && !matches!(number, 204 | 304);
    StatusCode::from_u16(number).ok().filter(|_| plain)
}

fn latency(words: &[&str]) -> Option<Latency> {
    match words {
        [base] => Some(Latency { base: duration(base)?, jitter: Duration::ZERO }),
        [base, jitter] => Some(Latency { base: duration(base)?, jitter: duration(jitter)? }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ChaosOrder, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        ChaosOrder::parse(&words).map_err(|misread| misread.to_string())
    }

    #[test]
    fn chaos_orders_are_parsed() {
        assert_eq!(read("off"), Ok(ChaosOrder::Mode(Mode::Off)));
        assert_eq!(read("slow 5s"), Ok(ChaosOrder::Mode(Mode::Slow(Duration::from_secs(5)))));
        assert_eq!(read("status 503"), Ok(ChaosOrder::Mode(Mode::Status(StatusCode::SERVICE_UNAVAILABLE))));
        assert_eq!(read("latency 20ms 5ms"), Ok(ChaosOrder::Latency(Latency::millis(20, 5))));
        assert_eq!(read("mute"), Ok(ChaosOrder::Mute(true)));
        assert_eq!(read("duplicate off"), Ok(ChaosOrder::Duplicate(false)));
    }

    #[test]
    fn bad_order_suggests_valid_syntax() {
        assert!(read("").unwrap_err().contains("slow 5s"));
        assert!(read("explode").unwrap_err().contains("truncate"));
        assert_eq!(read("slow").unwrap_err(), format!("slow takes {SPAN}"));
        assert_eq!(read("slow 400d").unwrap_err(), format!("slow takes {SPAN}"));
        assert_eq!(read("off now").unwrap_err(), "off takes nothing");
        for status in ["status", "status 99", "status 204", "status 600", "status x"] {
            assert_eq!(read(status).unwrap_err(), "status takes a status from 200 to 599");
        }
    }

    #[test]
    fn latency_stays_nonnegative_within_jitter() {
        let latency = Latency::millis(20, 5);
        assert_eq!(latency.draw(0.0), Duration::from_millis(15));
        assert_eq!(latency.draw(0.5), Duration::from_millis(20));
        assert_eq!(latency.draw(1.0), Duration::from_millis(25));
        assert_eq!(Latency::millis(2, 10).draw(0.0), Duration::ZERO);
    }
}
