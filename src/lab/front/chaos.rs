//! What can be made to go wrong: a region's [`Mode`], its lag and latency, a topic's [`Delivery`],
//! and the words with which a person orders them. [`super::Front`] and the emulator's topics
//! ([`crate::lab::aws::topic`]) carry them out. Any order that parses can be carried out; the error for one that does not says what to
//! write instead.

use std::time::Duration;

use http::StatusCode;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

impl Mode {
    /// A stable word, for output.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Off => "off",
            Self::Slow(_) => "slow",
            Self::Status(_) => "status",
            Self::Drip => "drip",
            Self::Truncate => "truncate",
            Self::Garbage => "garbage",
            Self::Endless => "endless",
            Self::Silent => "silent",
        }
    }
}

/// How long a region takes to answer: `base` plus or minus up to `jitter`.
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

/// What a person ordered for a region or its topic.
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
        let argument = |takes| Misread::Argument { word: (*word).to_owned(), takes };
        let span = || match rest {
            [text] => duration(text).ok_or_else(|| argument(SPAN)),
            _ => Err(argument(SPAN)),
        };
        let switch = || match rest {
            [] | ["on"] => Ok(true),
            ["off"] => Ok(false),
            _ => Err(argument("on or off")),
        };
        let plain = |order| if rest.is_empty() { Ok(order) } else { Err(argument("nothing")) };
        match *word {
            "healthy" | "on" => plain(Self::Mode(Mode::Healthy)),
            "off" => plain(Self::Mode(Mode::Off)),
            "drip" => plain(Self::Mode(Mode::Drip)),
            "truncate" => plain(Self::Mode(Mode::Truncate)),
            "garbage" => plain(Self::Mode(Mode::Garbage)),
            "endless" => plain(Self::Mode(Mode::Endless)),
            "silent" => plain(Self::Mode(Mode::Silent)),
            "reset" => plain(Self::Reset),
            "slow" => span().map(|span| Self::Mode(Mode::Slow(span))),
            "lag" => span().map(Self::Lag),
            "delay" => span().map(Self::Delay),
            "mute" => switch().map(Self::Mute),
            "duplicate" => switch().map(Self::Duplicate),
            "status" => status(rest)
                .map(|status| Self::Mode(Mode::Status(status)))
                .ok_or(argument("a status from 200 to 599")),
            "latency" => {
                latency(rest).map(Self::Latency).ok_or(argument("one or two durations, for example 20ms 5ms"))
            }
            _ => Err(Misread::Word { word: (*word).to_owned() }),
        }
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
    fn orders_read_as_people_write_them() {
        assert_eq!(read("off"), Ok(ChaosOrder::Mode(Mode::Off)));
        assert_eq!(read("slow 5s"), Ok(ChaosOrder::Mode(Mode::Slow(Duration::from_secs(5)))));
        assert_eq!(read("status 503"), Ok(ChaosOrder::Mode(Mode::Status(StatusCode::SERVICE_UNAVAILABLE))));
        assert_eq!(read("latency 20ms 5ms"), Ok(ChaosOrder::Latency(Latency::millis(20, 5))));
        assert_eq!(read("mute"), Ok(ChaosOrder::Mute(true)));
        assert_eq!(read("duplicate off"), Ok(ChaosOrder::Duplicate(false)));
    }

    #[test]
    fn an_order_that_makes_no_sense_says_what_to_write() {
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
    fn a_latency_stays_within_its_jitter_and_never_below_zero() {
        let latency = Latency::millis(20, 5);
        assert_eq!(latency.draw(0.0), Duration::from_millis(15));
        assert_eq!(latency.draw(0.5), Duration::from_millis(20));
        assert_eq!(latency.draw(1.0), Duration::from_millis(25));
        assert_eq!(Latency::millis(2, 10).draw(0.0), Duration::ZERO);
    }
}
