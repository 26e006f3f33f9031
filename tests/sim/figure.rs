//! Owns the comparison of the designs: the same seeds for each, one table, one picture.
//!
//! Before it: the simulation of a seed with a design. After it: `docs/pictures/designs.svg`, and
//! the table between the markers of the protocol's page. Invariant: what is
//! written is what was counted; the same seeds write the same bytes.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use self::picture::{Bar, Measure, Picture};
use super::designs::Design;
use super::faults::Fault;
use super::plan::{Proof, REGIONS, Style, Wishes};
use super::tallies::Tallies;

mod picture;

/// From the simplest to ours.
const DESIGNS: [Design; 3] = [Design::Naive, Design::Middle, Design::Nearside];

/// Pages with the table, and the picture's path from there.
const PAGES: [(&str, &str); 1] = [("docs/freshness.md", "pictures/designs.svg")];
const PICTURE: &str = "docs/pictures/designs.svg";
const BEGIN: &str = "<!-- designs:begin -->\n";
const END: &str = "<!-- designs:end -->";

/// The worlds that designs are compared in.
const WORLDS: [&str; 2] = ["versions and numbered heartbeats", "whatever a seed draws"];

/// A design in a world, and what was counted.
struct Row {
    world: usize,
    design: Design,
    tallies: Tallies,
}

/// Requirements of a world: the protocol's of a service and its publishers, or the seed's: perhaps
/// no versions, no numbers, no heartbeats, and not every region with a topic.
fn wishes(world: usize) -> Wishes {
    // Where data go back, or come of two environments, it is a matter of taste which is the newest;
    // and no design hears what is announced as another record, or keeps its version.
    let without = vec![
        Fault::Restored,
        Fault::Recreated,
        Fault::Mistyped,
        Fault::Astray,
        Fault::LetterCase,
        Fault::Elsewhere,
        Fault::SameVersion,
    ];
    match world {
        0 => Wishes {
            style: Some(Style::Versions),
            proof: Some(Proof::Watermark),
            announces_versions: Some(true),
            topics: Some(REGIONS),
            without,
            ..Wishes::default()
        },
        _ => Wishes { without, ..Wishes::default() },
    }
}

/// Simulates `seeds` seeds from 0 on with every design, on two threads, and writes table and
/// picture.
pub(crate) fn compare(seeds: u64, simulate: impl Fn(u64, &Wishes, Design) -> Tallies + Sync) {
    let mut rows = Vec::new();
    for (world, name) in WORLDS.iter().enumerate() {
        for design in DESIGNS {
            println!("{name}, {}:", design.word());
            let wishes = wishes(world);
            let tallies = total(seeds, |seed| simulate(seed, &wishes, design));
            rows.push(Row { world, design, tallies });
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let picture = root.join(PICTURE);
    std::fs::create_dir_all(picture.parent().expect("it has a directory")).expect("docs/ can be written");
    std::fs::write(&picture, drawn(&rows, seeds)).expect("docs/ can be written");
    println!("{}", table(&rows));
    for (page, picture) in PAGES {
        let path = root.join(page);
        let text = std::fs::read_to_string(&path).expect("the page is there");
        match with_table(&text, &section(&rows, seeds, picture)) {
            Some(text) => std::fs::write(&path, text).expect("the page can be written"),
            None => println!("{page} has no place for the table: {} ... {END}", BEGIN.trim()),
        }
    }
}

fn total(seeds: u64, simulate: impl Fn(u64) -> Tallies + Sync) -> Tallies {
    let (next, started) = (AtomicU64::new(0), Instant::now());
    let total = Mutex::new((Tallies::default(), 0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        return;
                    }
                    let tallies = simulate(seed);
                    let (total, done) = &mut *total.lock().expect("no panic while it was held");
                    total.add(&tallies);
                    *done += 1;
                    if *done % 50 == 0 || *done == seeds {
                        println!("  {done} of {seeds} seeds, {:.0} s", started.elapsed().as_secs_f64());
                    }
                }
            });
        }
    });
    total.into_inner().expect("no panic while it was held").0
}

/// The page with its table replaced.
fn with_table(page: &str, section: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{section}{END}{after}"))
}

fn section(rows: &[Row], seeds: u64, picture: &str) -> String {
    let reads = rows.iter().map(|row| row.tallies.reads).min().unwrap_or_default();
    format!(
        "{}\n![The same in bars]({picture})\n\n\
         `make designs` wrote this: {seeds} seeds of the simulator, at least {} reads with each design.\n",
        table(rows),
        grouped(reads)
    )
}

fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| what is stated | design | stale reads | worst staleness | reads served backwards | requests to regions per read \
         | labelled reads |\n| --- | --- | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for row in rows {
        let Row { world, design, tallies } = row;
        text += &format!(
            "| {} | {} | {} | {} | {} | {} | {} |\n",
            if design == &DESIGNS[0] { WORLDS[*world] } else { "" },
            design.word(),
            percent(row.stale()),
            span(tallies.worst),
            percent(row.backwards()),
            decimal(row.requests()),
            percent(row.labelled())
        );
    }
    text
}

fn drawn(rows: &[Row], seeds: u64) -> String {
    let measures = vec![
        measure(rows, "Stale reads", "share of answers more than a second behind some region, not labelled", |row| {
            (row.stale(), percent(row.stale()))
        }),
        measure(rows, "Worst staleness", "how far behind the worst of them was", |row| {
            (row.tallies.worst.as_secs_f64(), span(row.tallies.worst))
        }),
        measure(
            rows,
            "Reads served backwards",
            "share of answers older than an earlier reader's, not labelled",
            |row| (row.backwards(), percent(row.backwards())),
        ),
        measure(
            rows,
            "Requests to regions per read",
            "three for each miss, and what runs in the background",
            |row| (row.requests(), decimal(row.requests())),
        ),
    ];
    let about = format!("Three designs under the same {seeds} seeds of regions, changes, readers and faults");
    let columns = WORLDS.iter().map(|world| format!("Stated: {world}")).collect();
    Picture { title: "What each design serves when things go wrong", about, columns, measures }.svg()
}

/// A bar of each design in each world.
fn measure(rows: &[Row], title: &'static str, note: &'static str, of: impl Fn(&Row) -> (f64, String)) -> Measure {
    let mut cells: Vec<Vec<Bar>> = WORLDS.iter().map(|_| Vec::new()).collect();
    for row in rows {
        let (value, figure) = of(row);
        cells[row.world].push(Bar { name: row.design.word(), value, figure });
    }
    Measure { title, note, cells }
}

impl Row {
    fn share(&self, of: u64) -> f64 {
        of as f64 / self.tallies.reads.max(1) as f64
    }

    fn stale(&self) -> f64 {
        self.share(self.tallies.stale)
    }

    fn backwards(&self) -> f64 {
        self.share(self.tallies.backwards)
    }

    fn labelled(&self) -> f64 {
        self.share(self.tallies.labelled)
    }

    fn requests(&self) -> f64 {
        self.share(self.tallies.attempts)
    }
}

/// To the tenth, below that to the first digit that counts.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let digits = if percent >= 10.0 || percent == 0.0 { 0 } else { (-percent.log10()).floor().max(0.0) as usize + 1 };
    format!("{percent:.digits$} %")
}

fn decimal(value: f64) -> String {
    format!("{value:.2}")
}

fn span(span: Duration) -> String {
    if span < Duration::from_secs(10) {
        format!("{:.1} s", span.as_secs_f64())
    } else {
        format!("{} s", span.as_secs())
    }
}

/// With a comma at thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    digits
        .chars()
        .enumerate()
        .flat_map(|(place, digit)| {
            let comma = place > 0 && (digits.len() - place).is_multiple_of(3);
            comma.then_some(',').into_iter().chain([digit])
        })
        .collect()
}
