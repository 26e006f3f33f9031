//! Output of the story on a terminal: aligned columns, a bar for each attempt of a race, and colour
//! only for people. It prints what [`super::story`] measured. No line is wider than [`WIDTH`]
//! columns.

use std::io::{self, Write};
use std::time::Duration;

use super::access::{OTHER, READER};
use super::build::DevWorld;
use super::contents::{SHARDS, TENANTS};
use super::measured::{
    AllDown, DeadRegion, Lagging, Miss, Story, StoryAccess, StoryAttempt, StoryChange, StoryEvent, StoryHits,
    StoryJoined, StoryShapes,
};
use super::reader::{Seen, Spread};

/// The width of a line in columns.
pub const WIDTH: usize = 100;
const BAR: usize = 40;

/// Names and addresses of things here, in commands that can be pasted.
pub struct ByHand<'a> {
    pub program: &'a str,
    pub sidecar: &'a str,
    pub admin: &'a str,
    /// The nearest region.
    pub region: &'a str,
    /// The address for operators of its node.
    pub region_admin: &'a str,
    /// Says where the world takes orders, if commands must say so.
    pub control: &'a str,
}

pub struct Screen<'a> {
    out: &'a mut dyn Write,
    colour: bool,
    step: usize,
    /// True while a progress line is still there and must be wiped.
    dirty: bool,
}

impl<'a> Screen<'a> {
    /// Writes to `out`, with colour and progress only for a `terminal`.
    pub fn new(out: &'a mut dyn Write, terminal: bool) -> Self {
        Self { out, colour: terminal, step: 0, dirty: false }
    }

    /// Shows what runs where.
    pub fn opening(&mut self, world: &DevWorld, sidecar: &str, admin: &str) -> io::Result<()> {
        let title =
            self.bold("nearside-lab dev: a catalogue, views, three regions, and the sidecar in front of them");
        writeln!(self.out, "\n{title}\n")?;
        self.place("sidecar", sidecar, "ask it what you would ask a region")?;
        self.place("  admin", admin, "/livez /readyz /status /metrics")?;
        self.place("catalogue", world.catalogue.url(), "PUT /v1/records/tenant/{key}, /openapi.json")?;
        for region in world.regions.iter() {
            let knobs = region.server.knobs();
            let (base, jitter, lag) = (knobs.latency.base.as_millis(), knobs.latency.jitter.as_millis(), knobs.lag);
            let about = format!("answers in {base:>3} ms +- {jitter:<2}  ingests {:>3} ms late", lag.as_millis());
            self.place(&region.server.name, &region.server.url(), &about)?;
        }
        self.place("SNS and SQS", &world.aws.base, "topics that sign, queues that wait")?;
        self.place(
            "control",
            &format!("http://{}", world.control),
            "for nearside-lab dev put, delete, chaos, state",
        )?;
        for note in &world.notes {
            writeln!(self.out, "  note: {note}")?;
        }
        writeln!(
            self.out,
            "\n  The catalogue began with tenant-1 ... tenant-{TENANTS} on shard-1 ... shard-{SHARDS};"
        )?;
        writeln!(
            self.out,
            "  of each tenant there are two views, \"limits\" (with its shard's host) and \"profile\"."
        )?;
        writeln!(self.out, "  Records lie {}.", world.lies)?;
        if world.enforces() {
            writeln!(
                self.out,
                "  Catalogue and regions answer callers with tokens and grants; the sidecar signs its own."
            )?;
        }
        self.out.flush()
    }

    pub fn line(&mut self, text: &str) -> io::Result<()> {
        self.wipe()?;
        writeln!(self.out, "  {text}")?;
        self.out.flush()
    }

    /// Shows one piece of the story.
    pub fn tell(&mut self, event: StoryEvent<'_>) -> io::Result<()> {
        match event {
            StoryEvent::Progress(done, of) => return self.progress(done, of),
            StoryEvent::Begin(title) => {
                self.step += 1;
                let title = self.bold(&format!("{}  {title}", self.step));
                writeln!(self.out, "\n{title}")?;
            }
            StoryEvent::Miss(miss) => self.miss(miss)?,
            StoryEvent::Hits(hits) => self.hits(hits)?,
            StoryEvent::Shapes(shapes) => self.shapes(shapes)?,
            StoryEvent::Change(change) => self.change(change)?,
            StoryEvent::Joined(joined) => self.joined(joined)?,
            StoryEvent::DeadRegion(dead) => self.dead_region(dead)?,
            StoryEvent::Lagging(lagging) => self.lagging(lagging)?,
            StoryEvent::AllDown(down) => self.all_down(down)?,
            StoryEvent::Access(access) => self.access(access)?,
        }
        self.out.flush()
    }

    /// Shows what a person can try next.
    pub fn commands(&mut self, story: &Story, hand: &ByHand<'_>) -> io::Result<()> {
        let ByHand { program, sidecar, admin, control, .. } = hand;
        let title = self.bold(&format!("That took {} s. Now by hand:", story.took.as_secs()));
        writeln!(self.out, "\n{title}")?;
        let limits = format!("curl -si {sidecar}/v1/contexts/tenant-7/limits");
        let read = format!("{limits} | grep -i -e version -e cache-status");
        let lines = [
            (read.clone(), "a version, fwd=uri-miss: the regions were asked"),
            (read.clone(), "the same version, hit"),
            (put_plan(program, "gold", control), "a new version of the record, and of its views in the regions"),
            (read.clone(), "a newer version: it was announced, and asked for again"),
            (
                format!("{program} dev put shard/shard-7 '{{\"host\":\"new.example.com\"}}'{control}"),
                "the other record of the same view",
            ),
            (limits.clone(), "the new host, in a newer version"),
            (format!("curl -si '{sidecar}/v1/contexts/tenant-7/limits?fields=plan,host'"), "two fields of it, a hit"),
            (
                format!("{} -H accept:application/x-protobuf", limits.replace("-si", "-so -")),
                "the same as Protobuf, a hit",
            ),
            (
                format!("curl -s --json '{{\"keys\":[\"tenant-7\",\"tenant-9\"]}}' {sidecar}/v1/batch/limits"),
                "two records in one request",
            ),
            (format!("{program} dev chaos eu-west-1 off{control}"), "a region refuses connections"),
            (format!("{program} dev chaos us-east-1 slow 5s{control}"), "another is slow"),
            (
                format!("curl -si {sidecar}/v1/contexts/tenant-8/limits | head -n 1"),
                "200 all the same, from the third",
            ),
            (format!("{program} dev chaos all reset{control}"), "all are well again"),
            (format!("{program} dev chaos ap-southeast-2 lag 30s{control}"), "a region ingests half a minute late"),
            (put_plan(program, "iron", control), "the other two have the new version"),
            (read, "it, whichever answers first"),
            (format!("{program} dev state{control}"), "ap-southeast-2 is behind"),
            (format!("curl -s {admin}/status"), "what operators see, without a finding"),
        ];
        self.pasted(&lines)?;
        if story.access.is_some() {
            self.pasted(&access_commands(hand))?;
        }
        self.line("The same as it runs on AWS, on an emulator and one process for each part: make aws")?;
        self.out.flush()
    }

    /// Commands, each with what it will show.
    fn pasted(&mut self, lines: &[(String, &str)]) -> io::Result<()> {
        for (line, expected) in lines {
            // `:` does nothing in any shell, so that a pasted line only announces what comes next.
            writeln!(self.out, "  : '{expected}'\n  {line}")?;
        }
        Ok(())
    }

    fn miss(&mut self, miss: &Miss) -> io::Result<()> {
        self.race(&miss.attempts, miss.winner.as_deref())?;
        self.fact("the caller had its answer after", &ms(miss.seen.took), "")
    }

    fn hits(&mut self, hits: &StoryHits) -> io::Result<()> {
        self.wipe()?;
        self.fact("requests", &hits.asked.to_string(), "")?;
        self.fact("from the store", &hits.hits.to_string(), "")?;
        self.spread("latency", hits.spread)?;
        if cfg!(debug_assertions) {
            self.line("in a debug build; with --release it takes a quarter")?;
        }
        Ok(())
    }

    fn shapes(&mut self, shapes: &StoryShapes) -> io::Result<()> {
        let StoryShapes { json, protobuf, fields: (fields, some), batch: (keys, batch), requests } = shapes;
        for (name, seen) in [
            ("a record as JSON".to_owned(), json),
            ("as Protobuf, derived once".to_owned(), protobuf),
            (format!("its fields {fields}"), some),
        ] {
            let hit = if seen.is_hit() { "a hit, of the same entry" } else { "no hit" };
            self.fact(&name, &format!("{} bytes", seen.bytes), hit)?;
        }
        let most = requests.iter().map(|(_, count)| *count).max().unwrap_or_default();
        let each = format!("{most} request to each of {} regions", requests.len());
        self.fact(&format!("{keys} cold records in one request"), &ms(batch.took), &each)
    }

    fn change(&mut self, change: &StoryChange) -> io::Result<()> {
        let before = change.before.map_or_else(|| "?".to_owned(), |version| version.to_string());
        self.fact("version", &format!("{before} -> {}", change.version), "")?;
        self.fact("a caller saw it after", &ms(change.visible), "from the put in the catalogue")?;
        for (region, arrival) in &change.arrivals {
            let arrived = arrival.map_or_else(|| "not yet".to_owned(), ms);
            self.fact(&format!("announced by {region}"), &arrived, "from the put to verified and applied")?;
        }
        Ok(())
    }

    fn joined(&mut self, joined: &StoryJoined) -> io::Result<()> {
        self.fact(
            "views made again",
            &joined.made.to_string(),
            &format!("\"limits\" of tenants on {}", joined.shard),
        )?;
        self.fact("views of the tenants alone", &joined.others.to_string(), "\"profile\" does not show it")?;
        self.fact("announcements", &joined.announcements.to_string(), "from all regions together")?;
        self.fact("a caller saw one after", &ms(joined.visible), "from the put in the catalogue")?;
        self.fact("all were applied after", &ms(joined.applied), "from every region, by all who listen")
    }

    fn dead_region(&mut self, dead: &DeadRegion) -> io::Result<()> {
        self.wipe()?;
        let off = format!("{} switched off after {} of them", dead.region, dead.off_after);
        self.fact("cold records asked for", &dead.asked.to_string(), &off)?;
        self.verdict("failed requests", dead.failed)?;
        self.spread("latency before", dead.before)?;
        self.spread("latency from then on", dead.during)
    }

    fn lagging(&mut self, lagging: &Lagging) -> io::Result<()> {
        self.race(&lagging.attempts, None)?;
        let first = format!("{} of {}", lagging.answered_first, lagging.asked);
        self.fact("it answered first", &first, &format!("{}, with an old version", lagging.region))?;
        self.verdict("old versions served", lagging.old_served)?;
        self.verdict("failed requests", lagging.failed)
    }

    fn all_down(&mut self, down: &AllDown) -> io::Result<()> {
        let rows = [
            (format!("changed to {}", down.announced), &down.stored),
            ("stored, not changed".to_owned(), &down.other),
            ("not stored, so nobody can answer".to_owned(), &down.cold),
        ];
        for (name, seen) in rows {
            let status = seen.status.map_or_else(|| "none".to_owned(), |it| it.to_string());
            let version = seen.version.map_or_else(|| "no version".to_owned(), |it| format!("version {it}"));
            self.fact(&name, &format!("{status}, {version}"), "")?;
            writeln!(self.out, "    Cache-Status: {}", seen.label)?;
        }
        self.fact("the change seen after their return", &ms(down.recovered), "")
    }

    fn access(&mut self, access: &StoryAccess) -> io::Result<()> {
        let StoryAccess { region, anonymous, foreign, own, stop } = access;
        self.fact(&format!("{region}, without a token"), &answered(anonymous), &anonymous.problem)?;
        let has = format!("{}: {OTHER} has \"profile\" alone", foreign.problem);
        self.fact(&format!("by {OTHER}'s token, \"limits\""), &answered(foreign), &has)?;
        self.fact(&format!("by {OTHER}'s token, \"profile\""), &answered(own), "")?;
        let at = humantime::format_rfc3339_millis(stop.at.to_system_time()).to_string();
        let time = at.get(11..23).unwrap_or_default();
        self.fact(&format!("all grants of {READER} withdrawn"), time, "UTC; it is the sidecar's consumer")?;
        for (region, took) in &stop.regions {
            self.fact(&format!("refused at {region} after"), &ms(*took), "as a caller there sees it")?;
        }
        self.fact("at the sidecar's caller after", &ms(stop.caller), "where hits were served until then")?;
        self.fact("and answered again after", &ms(stop.given_back), "once the grants were given back")
    }

    /// A bar for each attempt, which shows who answered when.
    fn race(&mut self, attempts: &[StoryAttempt], winner: Option<&str>) -> io::Result<()> {
        let longest = attempts
            .iter()
            .filter_map(|attempt| attempt.took)
            .max()
            .unwrap_or_default()
            .max(Duration::from_micros(1));
        for attempt in attempts {
            let Some(took) = attempt.took else {
                writeln!(self.out, "  {:<16}  {:<BAR$}  no answer", attempt.region, "")?;
                continue;
            };
            let share = took.as_secs_f64() / longest.as_secs_f64();
            let bar = "=".repeat(((BAR as f64 * share).round() as usize).clamp(1, BAR));
            let version = attempt.version.map_or_else(String::new, |version| format!("version {version}"));
            let won = if winner == Some(attempt.region.as_str()) { self.green("  won") } else { String::new() };
            writeln!(self.out, "  {:<16}  {bar:<BAR$}  {:>10}  {version}{won}", attempt.region, ms(took))?;
        }
        Ok(())
    }

    fn place(&mut self, name: &str, url: &str, about: &str) -> io::Result<()> {
        writeln!(self.out, "  {name:<16}  {url:<24}  {about}")
    }

    /// A name, a right-aligned value, and a remark cut to the width.
    fn fact(&mut self, name: &str, value: &str, remark: &str) -> io::Result<()> {
        let left = format!("  {name:<34}  {value:>16}");
        let room = WIDTH.saturating_sub(left.chars().count() + 2);
        let remark: String = remark.chars().take(room).collect();
        writeln!(self.out, "{}", format!("{left}  {remark}").trim_end())
    }

    /// A count that ought to be zero.
    fn verdict(&mut self, name: &str, count: usize) -> io::Result<()> {
        let line = format!("  {name:<34}  {count:>16}");
        let line = if count == 0 { self.green(&line) } else { self.paint(&line, "31") };
        writeln!(self.out, "{line}")
    }

    fn spread(&mut self, name: &str, spread: Spread) -> io::Result<()> {
        self.fact(name, &format!("p50 {}", ms(spread.p50)), &format!("p99 {:>9}", ms(spread.p99)))
    }

    fn progress(&mut self, done: usize, of: usize) -> io::Result<()> {
        // A hundred updates are enough for the eye.
        if !self.colour || !done.is_multiple_of((of / 100).max(1)) {
            return Ok(());
        }
        let filled = BAR * done / of.max(1);
        write!(self.out, "\r  {}{} {done}/{of}", "=".repeat(filled), " ".repeat(BAR - filled))?;
        self.dirty = true;
        self.out.flush()
    }

    fn wipe(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.dirty) {
            write!(self.out, "\r{:WIDTH$}\r", "", WIDTH = WIDTH - 1)?;
        }
        Ok(())
    }

    fn bold(&self, text: &str) -> String {
        self.paint(text, "1")
    }

    fn green(&self, text: &str) -> String {
        self.paint(text, "32")
    }

    fn paint(&self, text: &str, code: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Commands about who may read.
fn access_commands(hand: &ByHand<'_>) -> [(String, &'static str); 9] {
    let ByHand { program, sidecar, region, region_admin, control, .. } = hand;
    let [limits, straight] = [sidecar, region].map(|base| format!("{base}/v1/contexts/tenant-7/limits"));
    let with_token = format!("curl -s {straight} -H \"Authorization: Bearer $TOKEN\"");
    let [reader, other] = [READER, OTHER].map(|consumer| format!("TOKEN=$({program} dev token {consumer}{control})"));
    [
        (format!("curl -si {straight} | head -n 1"), "401: a region asks who you are"),
        (reader, "a token of the consumer whose sidecar it is"),
        (with_token.clone(), "it may read that"),
        (other, "a token of another consumer"),
        (with_token, "403: it may not"),
        (
            format!("curl -s {region_admin}/metrics | grep not-granted"),
            "who tried, as operators see it; nearside grants report says it in words",
        ),
        (format!("{program} dev stop {READER}{control}"), "all grants of the sidecar's consumer are withdrawn"),
        (format!("curl -si {limits} | head -n 1"), "403: what was stored ended with them"),
        (format!("{program} dev resume {READER}{control}"), "it has them again"),
    ]
}

fn answered(seen: &Seen) -> String {
    seen.status.map_or_else(|| "no answer".to_owned(), |status| status.to_string())
}

/// A command that writes the record of the reads with another plan.
fn put_plan(program: &str, plan: &str, control: &str) -> String {
    format!("{program} dev put tenant-7 '{{\"plan\":\"{plan}\",\"shard\":\"shard-7\"}}'{control}")
}

/// Milliseconds with as many digits as matter.
fn ms(span: Duration) -> String {
    let millis = span.as_secs_f64() * 1000.0;
    if millis < 10.0 { format!("{millis:.2} ms") } else { format!("{millis:.1} ms") }
}
